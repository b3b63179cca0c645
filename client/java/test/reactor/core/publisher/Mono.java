package reactor.core.publisher;

import java.util.concurrent.Callable;
import java.util.concurrent.Executor;

/** A stand-in: a call that is made when it is asked for, on the executor that was named. */
public final class Mono<T> {
    private final Callable<T> call;

    private Mono(Callable<T> call) {
        this.call = call;
    }

    public static <T> Mono<T> fromCallable(Callable<T> call) {
        return new Mono<>(call);
    }

    public Mono<T> subscribeOn(Executor scheduler) {
        return new Mono<>(() -> {
            var task = new java.util.concurrent.FutureTask<>(call);
            scheduler.execute(task);
            return task.get();
        });
    }

    public T block() throws Exception {
        return call.call();
    }
}
