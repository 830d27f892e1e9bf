package io.seqd.client;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** A node of a script: it records requests and answers them as a function of the request. */
final class Stub implements AutoCloseable {
    /** One request. */
    record Request(String method, String path, String query, String body) {}

    /** A response. Status 0 closes the connection; {@link #NEVER} never responds; -200 begins a response with 200. */
    record Response(int status, String body) {}

    static final int NEVER = -1;

    interface Script {
        Response answer(Request request);
    }

    final List<Request> requests = Collections.synchronizedList(new ArrayList<>());
    private final HttpServer server;
    private final ExecutorService threads = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    });

    /** A node that lives. */
    Stub(Script script) {
        this(script, request -> new Response(200, "{}"));
    }

    Stub(Script script, Script live) {
        try {
            server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        server.setExecutor(threads);
        server.createContext("/", exchange -> {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            Request request = new Request(exchange.getRequestMethod(), exchange.getRequestURI().getRawPath(),
                    exchange.getRequestURI().getRawQuery(), body);
            boolean isLive = request.path().equals("/livez");
            if (!isLive) {
                requests.add(request);
            }
            Response response = (isLive ? live : script).answer(request);
            if (response.status() == NEVER) {
                return;
            }
            if (response.status() == 0) {
                throw new IOException("the script closes the connection");
            }
            byte[] bytes = response.body().getBytes(StandardCharsets.UTF_8);
            if (response.status() < 0) {
                exchange.sendResponseHeaders(-response.status(), bytes.length + 1);
                exchange.getResponseBody().write(bytes);
                exchange.getResponseBody().flush();
                return;
            }
            exchange.sendResponseHeaders(response.status(), bytes.length);
            exchange.getResponseBody().write(bytes);
            exchange.close();
        });
        server.start();
    }

    static Response problem(int status, String code, boolean retryable) {
        return new Response(status, Json.write(Client.fields("type", "/problems/" + code, "status", status, "code",
                code, "detail", "a script", "retryable", retryable, "hint", "none")));
    }

    String endpoint() {
        return "127.0.0.1:" + server.getAddress().getPort();
    }

    @Override
    public void close() {
        server.stop(0);
        threads.shutdownNow();
    }
}
