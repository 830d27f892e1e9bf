import me.ahoo.cosid.machine.AbstractMachineIdDistributor;
import me.ahoo.cosid.machine.ClockBackwardsSynchronizer;
import me.ahoo.cosid.machine.InMemoryMachineStateStorage;
import me.ahoo.cosid.machine.InstanceId;
import me.ahoo.cosid.machine.MachineIdDistributor;
import me.ahoo.cosid.machine.MachineIdLostException;
import me.ahoo.cosid.machine.MachineIdOverflowException;
import me.ahoo.cosid.machine.MachineState;
import me.ahoo.cosid.machine.NotFoundMachineStateException;
import me.ahoo.cosid.segment.IdSegmentDistributor;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The requests of CosId's module cosid-proxy, which is not in every registry: without a body,
 * without a content type, and with the headers of an upgrade to HTTP/2, which Java's client adds.
 */
final class CosIdProxy {
    private static final HttpClient http = HttpClient.newHttpClient();

    static HttpResponse<String> send(String method, String path) {
        HttpRequest request =
                HttpRequest.newBuilder(URI.create(Checks.HTTP + path))
                        .method(method, BodyPublishers.noBody())
                        .build();
        try {
            return http.send(request, BodyHandlers.ofString());
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static String field(String json, String name) {
        Matcher matcher = Pattern.compile('"' + name + "\"\\s*:\\s*\"?([^,\"}]*)").matcher(json);
        return matcher.find() ? matcher.group(1) : "";
    }

    private static IllegalStateException unexpected(HttpResponse<String> response) {
        return new IllegalStateException(
                response.request().uri() + ": " + response.statusCode() + " " + response.body());
    }

    /** The machine numbers of one process, which has its own record of them. */
    static final class Machines extends AbstractMachineIdDistributor {
        final AtomicInteger guards = new AtomicInteger();

        Machines() {
            super(new InMemoryMachineStateStorage(), ClockBackwardsSynchronizer.DEFAULT);
        }

        private static String path(String namespace, InstanceId instance) {
            return "/machines/"
                    + namespace
                    + "?instanceId="
                    + instance.getInstanceId()
                    + "&stable="
                    + instance.isStable();
        }

        @Override
        protected MachineState distributeRemote(
                String namespace, int bits, InstanceId instance, Duration safeGuard) {
            var response =
                    send(
                            "POST",
                            path(namespace, instance)
                                    + "&machineBit="
                                    + bits
                                    + "&safeGuardDuration="
                                    + safeGuard);
            if (response.statusCode() == 200) {
                return MachineState.of(
                        Integer.parseInt(field(response.body(), "machineId")),
                        Long.parseLong(field(response.body(), "lastTimeStamp")));
            }
            if (field(response.body(), "code").equals("M-01")) {
                throw new MachineIdOverflowException(
                        MachineIdDistributor.totalMachineIds(bits), instance);
            }
            throw unexpected(response);
        }

        @Override
        protected void revertRemote(String namespace, InstanceId instance, MachineState state) {
            var response = send("DELETE", path(namespace, instance));
            if (response.statusCode() != 200) {
                throw unexpected(response);
            }
        }

        @Override
        protected void guardRemote(
                String namespace, InstanceId instance, MachineState state, Duration safeGuard) {
            var response =
                    send("PATCH", path(namespace, instance) + "&safeGuardDuration=" + safeGuard);
            if (response.statusCode() == 200) {
                guards.incrementAndGet();
                return;
            }
            switch (field(response.body(), "code")) {
                case "M-02" -> throw new NotFoundMachineStateException(namespace, instance);
                case "M-03" -> throw new MachineIdLostException(namespace, instance, state);
                default -> throw unexpected(response);
            }
        }
    }

    /** The segments of one name. */
    record Segments(String getNamespace, String getName, long getStep)
            implements IdSegmentDistributor {
        Segments {
            var response =
                    send(
                            "POST",
                            "/segments/distributor/"
                                    + getNamespace
                                    + "/"
                                    + getName
                                    + "?offset=0&step="
                                    + getStep);
            if (response.statusCode() != 200) {
                throw unexpected(response);
            }
        }

        @Override
        public long nextMaxId(long step) {
            var response =
                    send("PATCH", "/segments/" + getNamespace + "/" + getName + "?step=" + step);
            if (response.statusCode() != 200) {
                throw unexpected(response);
            }
            return Long.parseLong(response.body());
        }
    }

    private CosIdProxy() {}
}
