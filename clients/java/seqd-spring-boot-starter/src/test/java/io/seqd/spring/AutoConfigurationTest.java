package io.seqd.spring;

import static org.assertj.core.api.Assertions.assertThat;

import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import com.sun.net.httpserver.HttpServer;
import io.seqd.client.IdGenerator;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

class AutoConfigurationTest {
    private final ApplicationContextRunner runner = new ApplicationContextRunner().withConfiguration(
            AutoConfigurations.of(SeqdAutoConfiguration.class, CosIdAutoConfiguration.class));

    @Test
    void bothInterfacesShareOneGeneratorAndTheWorkerIsReturned() throws Exception {
        AtomicReference<String> released = new AtomicReference<>();
        HttpServer node = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        long tick = System.currentTimeMillis() - 1288834974657L;
        node.createContext("/", exchange -> {
            if (exchange.getRequestMethod().equals("DELETE")) {
                released.set(exchange.getRequestURI().toString());
            }
            byte[] lease = ("{\"id\":33,\"lease\":\"9\",\"from_tick\":\"" + (tick - 1000) + "\",\"fence_tick\":\""
                    + (tick + 60000) + "\",\"renew_after_ms\":20000,\"layout\":{\"name\":\"twitter\",\"epoch_ms\":"
                    + "1288834974657,\"tick_ms\":1,\"time_bits\":41,\"datacenter_bits\":5,\"worker_bits\":5,"
                    + "\"sequence_bits\":12,\"order\":\"tick-worker-sequence\",\"first_sequence\":\"zero\"}}")
                    .getBytes(StandardCharsets.UTF_8);
            exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(200, lease.length);
            exchange.getResponseBody().write(lease);
            exchange.close();
        });
        node.start();
        try {
            runner.withPropertyValues("seqd.endpoints=127.0.0.1:" + node.getAddress().getPort(), "seqd.owner=test")
                    .run(context -> {
                        long first = context.getBean(IdentifierGenerator.class).nextId(new Object()).longValue();
                        long second = context.getBean(me.ahoo.cosid.IdGenerator.class).generate();
                        assertThat(second).isGreaterThan(first);
                        // The worker field of MyBatis-Plus's own layout: datacenter 1, worker 1.
                        assertThat(first >> 12 & 0x3ff).isEqualTo(33);
                    });
            assertThat(released.get()).contains("/v1/workers/twitter/33/lease").contains("last_tick=");
        } finally {
            node.stop(0);
        }
    }

    @Test
    void aGeneratorOfTheApplicationIsKept() {
        IdentifierGenerator own = entity -> 7;
        runner.withPropertyValues("seqd.endpoints=127.0.0.1:1").withBean(IdentifierGenerator.class, () -> own)
                .run(context -> assertThat(context.getBean(IdentifierGenerator.class)).isSameAs(own));
    }

    @Test
    void withoutMybatisPlusAndCosIdThereIsTheGeneratorAlone() {
        runner.withPropertyValues("seqd.endpoints=127.0.0.1:1")
                .withClassLoader(new FilteredClassLoader("com.baomidou", "me.ahoo"))
                .run(context -> assertThat(context).hasSingleBean(IdGenerator.class));
    }

    @Test
    void withReadyAnApplicationWithoutANodeDoesNotStart(@TempDir Path folder) throws IOException {
        Path token = Files.writeString(folder.resolve("token"), "secret\n");
        runner.withPropertyValues("seqd.endpoints=127.0.0.1:1", "seqd.ready=true", "seqd.patience=1s",
                "seqd.token-file=" + token).run(context -> assertThat(context.getStartupFailure()).rootCause()
                        .hasMessageContaining("no node could be reached"));
    }

    @Test
    void endpointsAreRequiredUnlessItIsDisabled() {
        runner.run(context -> assertThat(context.getStartupFailure()).rootCause()
                .hasMessageContaining("seqd.endpoints is not set"));
        runner.withPropertyValues("seqd.enabled=false")
                .run(context -> assertThat(context).hasNotFailed().doesNotHaveBean(IdGenerator.class));
    }
}
