package io.seqd.spring;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Path;
import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The properties {@code seqd.*}.
 *
 * @param endpoints the nodes, comma-separated: {@code host}, {@code host:port} or URLs
 * @param tokenFile a file with the token, instead of the token
 * @param owner the name of this process's worker, by default the name of the host or pod
 * @param layout the layout of the IDs; {@code twitter} is the one of MyBatis-Plus
 * @param ready whether the application starts only once it can make IDs, within the patience
 * @param patience how long a call waits for a lease or a tick
 */
@ConfigurationProperties("seqd")
public record SeqdProperties(String endpoints, String token, String owner, @DefaultValue("twitter") String layout,
        Integer datacenter, Duration timeout, @DefaultValue("5s") Duration patience, Path ca, Path certificate,
        Path key, Path tokenFile, boolean ready) {
    /** Requires endpoints: a silent default would mint with another generator, or of another cluster. */
    public SeqdProperties {
        if (endpoints == null || endpoints.isBlank()) {
            throw new IllegalArgumentException("seqd.endpoints is not set: give the nodes, such as "
                    + "seqd.endpoints=n1.example,n2.example,n3.example, or seqd.enabled=false");
        }
    }

    String ownerOrHost() {
        if (owner != null && !owner.isBlank()) {
            return owner;
        }
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException unknown) {
            throw new IllegalStateException("this host has no name: set seqd.owner, such as the name of the service",
                    unknown);
        }
    }

    /** Omits the token. */
    @Override
    public String toString() {
        return "SeqdProperties[endpoints=" + endpoints + ", owner=" + owner + ", layout=" + layout + "]";
    }
}
