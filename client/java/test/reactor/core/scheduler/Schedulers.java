package reactor.core.scheduler;

import java.util.concurrent.Executor;

/** A stand-in. */
public final class Schedulers {
    private Schedulers() {
    }

    public static Executor boundedElastic() {
        return task -> new Thread(task, "boundedElastic").start();
    }
}
