package io.seqd.client;

import java.io.IOException;
import java.net.ConnectException;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.nio.channels.UnresolvedAddressException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLHandshakeException;

/**
 * Sends requests: tries the endpoints in turn, applies deadlines, and distinguishes requests that were not sent from
 * requests without a response.
 *
 * <p>The next endpoint is tried only if that is certainly harmless: no connection was made, the response is retryable,
 * or a request that may be repeated has no response within its share of the time. A request that must not be repeated
 * is sent only to a node that has responded lately, at least to {@code /livez}.
 */
final class Transport {
    /** The time beyond the server's deadline, so that its response about a missed deadline arrives. */
    private static final long GRACE_MS = 500;
    private static final long MAX_SERVER_TIMEOUT_MS = 30_000;
    /** The default deadline of a server. */
    private static final long DEFAULT_TIMEOUT_MS = 3_000;
    private static final String JSON = "application/json, application/problem+json";

    private final Endpoints endpoints;
    private final HttpClient http;
    private final ExecutorService threads;
    private final String token;
    private final boolean hasTimeout;
    private final long wholeMs;

    /** One request without an endpoint. {@code changes}: its outcome matters when the response is lost. */
    record Call(String method, String path, Map<String, String> query, String body, String idempotencyKey,
            boolean changes, long waitMs) {}

    /** One thread for each request that waits; idle ones end after a minute. */
    Transport(List<Endpoint> endpoints, Duration timeout, String token, SSLContext tls) {
        this(endpoints, timeout, token, tls, Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task, "seqd-request");
            thread.setDaemon(true);
            return thread;
        }));
    }

    Transport(List<Endpoint> endpoints, Duration timeout, String token, SSLContext tls, ExecutorService threads) {
        this.threads = threads;
        this.endpoints = new Endpoints(endpoints, () -> System.nanoTime() / 1_000_000);
        this.token = token;
        this.hasTimeout = timeout != null;
        this.wholeMs = (hasTimeout ? timeout.toMillis() : DEFAULT_TIMEOUT_MS) + GRACE_MS;
        HttpClient.Builder builder = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .followRedirects(HttpClient.Redirect.NEVER)
                .connectTimeout(Duration.ofMillis(Math.min(Endpoints.SILENCE_MS, wholeMs)));
        if (tls != null) {
            builder.sslContext(tls);
        }
        this.http = builder.build();
    }

    Answer send(Call call) {
        return send(call, Long.MAX_VALUE);
    }

    /** Sends a request within {@code limitMs} over all endpoints. */
    Answer send(Call call, long limitMs) {
        long wholeMs = Math.min(this.wholeMs, limitMs) + call.waitMs();
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(wholeMs);
        Round round = new Round();
        List<Integer> order = endpoints.inTurn();
        for (int tried = 0; tried < order.size(); tried++) {
            long rest = leftMs(until);
            if (tried > 0 && rest == 0) {
                break;
            }
            Answer answer = attempt(round, call, order.get(tried), order.size() - tried, until);
            if (answer != null) {
                return answer;
            }
        }
        throw round.error();
    }

    private static long leftMs(long until) {
        return Math.max(0, TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime()));
    }

    /** Tries one endpoint. Returns null if the next one should be tried. */
    private Answer attempt(Round round, Call call, int index, int left, long until) {
        boolean mayWait = call.waitMs() > 0;
        boolean needsSign = call.changes() || (mayWait && left > 1);
        if (needsSign && !endpoints.answeredLately(index)) {
            long limit = Endpoints.silence(leftMs(until) / (left + 1), left);
            if (!signOfLife(round, index, limit)) {
                return null;
            }
        }
        long limit = limit(call, leftMs(until), left);
        Endpoint endpoint = endpoints.at(index);
        HttpResponse<byte[]> response;
        try {
            response = exchange(request(endpoint, call, limit), limit);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw round.interrupted(endpoint, call.changes());
        } catch (IOException failed) {
            endpoints.wasSilent(index);
            round.silent(endpoint, reason(failed), !wasSent(failed), call.changes());
            return null;
        }
        if (round.lacksTls(endpoint, response.statusCode(), response.body())) {
            endpoints.wasSilent(index);
            return null;
        }
        endpoints.answered(index, response.statusCode() < 500);
        return round.answered(endpoint, response.statusCode(), response.body(), call.changes());
    }

    /** Returns the time for the response of one endpoint, of the rest of the time and with this many endpoints left. */
    private long limit(Call call, long rest, int left) {
        // Only one node is tried with a request that must not be repeated: it has all of the time.
        if (call.changes()) {
            return rest;
        }
        // Each node may wait for as long as requested. Only the time beyond that is divided.
        if (call.waitMs() > 0) {
            return Math.min(rest, (rest - call.waitMs()) / left + call.waitMs());
        }
        // A deadline of the user is divided without the limit on silence.
        return hasTimeout ? rest / left : Endpoints.silence(rest / left, left);
    }

    /** Waits for any response of the node itself to {@code /livez}. Without one, nothing with an effect is sent. */
    private boolean signOfLife(Round round, int index, long limitMs) {
        Endpoint endpoint = endpoints.at(index);
        Call live = new Call("GET", "/livez", Map.of(), null, null, false, 0);
        String reason;
        try {
            int status = exchange(request(endpoint, live, limitMs), limitMs).statusCode();
            if (status < 500) {
                endpoints.answered(index, true);
                return true;
            }
            // A proxy returns such a status if it cannot reach the node.
            reason = "status " + status + " for /livez";
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw round.interrupted(endpoint, false);
        } catch (IOException failed) {
            reason = wasSent(failed) ? "/livez " + reason(failed) : reason(failed);
        }
        endpoints.wasSilent(index);
        round.silent(endpoint, reason, true, false);
        return false;
    }

    /** Builds the request. The server receives a deadline that leaves time for its response about a missed one. */
    private HttpRequest request(Endpoint endpoint, Call call, long limitMs) {
        Map<String, String> query = new LinkedHashMap<>(call.query());
        long told = Math.min(Math.max(0, limitMs - call.waitMs()), wholeMs);
        if (call.path().startsWith("/v1/")) {
            long deadline = Math.min(Math.max(told - GRACE_MS, told / 2), MAX_SERVER_TIMEOUT_MS);
            query.put("timeout_ms", Long.toString(Math.max(deadline, 1)));
        }
        HttpRequest.Builder request = HttpRequest.newBuilder(endpoint.url(call.path(), query)).header("Accept", JSON);
        if (token != null) {
            request.header("Authorization", "Bearer " + token);
        }
        if (call.idempotencyKey() != null) {
            request.header("Idempotency-Key", call.idempotencyKey());
        }
        if (call.body() == null) {
            return request.method(call.method(), BodyPublishers.noBody()).build();
        }
        request.header("Content-Type", "application/json");
        byte[] body = call.body().getBytes(StandardCharsets.UTF_8);
        return request.method(call.method(), BodyPublishers.ofByteArray(body)).build();
    }

    /**
     * Sends one request, and reads the whole response within the limit. The client's {@code sendAsync} would start a
     * thread for each response on a machine of two cores; its own timeout of a request may report a request that was
     * sent as one that had no connection.
     */
    private HttpResponse<byte[]> exchange(HttpRequest request, long limitMs) throws IOException, InterruptedException {
        Future<HttpResponse<byte[]>> exchange;
        try {
            exchange = threads.submit(() -> http.send(request, info -> new BoundedBody()));
        } catch (OutOfMemoryError noThread) {
            // The lack of a thread may pass, and this error would end the thread that renews a hold or a lease.
            throw new ConnectException(noThread.getMessage());
        }
        try {
            return exchange.get(Math.max(limitMs, 1), TimeUnit.MILLISECONDS);
        } catch (TimeoutException late) {
            throw new IOException("timed out", late);
        } catch (ExecutionException failed) {
            Throwable cause = failed.getCause();
            throw cause instanceof IOException io ? io : new IOException(cause.toString(), cause);
        } finally {
            exchange.cancel(true);
        }
    }

    /** Returns whether any part of the request may have reached a server that processes it. */
    static boolean wasSent(Throwable failed) {
        for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
            boolean noConnection = cause instanceof ConnectException || cause instanceof HttpConnectTimeoutException
                    || cause instanceof UnresolvedAddressException || cause instanceof SSLHandshakeException;
            // A node that rejects this client's certificate sends an alert after the client's part of the handshake.
            boolean refused = cause instanceof SSLException && cause.getMessage() != null
                    && cause.getMessage().contains("certificate");
            if (noConnection || refused) {
                return false;
            }
        }
        return true;
    }

    /** Returns the innermost cause that has words: {@code connection refused}, not {@code ConnectException}. */
    private static String reason(Throwable failed) {
        String words = null;
        for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
            if (cause instanceof UnresolvedAddressException) {
                return "the host is not known";
            }
            if (cause instanceof HttpConnectTimeoutException) {
                return "connecting timed out";
            }
            if (cause.getMessage() != null && !cause.getMessage().equals(String.valueOf(cause.getCause()))) {
                words = cause.getMessage();
            }
        }
        if (words == null) {
            return failed instanceof ConnectException ? "connection refused" : failed.toString();
        }
        return words;
    }
}
