package org.springframework.cloud.gateway.support;

import java.util.Map;

/** A stand-in for it and for Configurable. */
public interface StatefulConfigurable<C> {
    Class<C> getConfigClass();

    C newConfig();

    Map<String, C> getConfig();
}
