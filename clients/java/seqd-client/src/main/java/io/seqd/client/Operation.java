package io.seqd.client;

import java.util.List;

/**
 * The routes that programs use. A test compares them with docs/openapi.json. The routes of operators (members, access
 * tokens, configuration) are commands of {@code seqd}.
 */
public enum Operation {
    LIVE("GET", "/livez", Repeat.HARMLESS, false),
    CLUSTER("GET", "/v1/cluster", Repeat.HARMLESS, false),
    ID("GET", "/v1/id", Repeat.HARMLESS, false),
    DELETE_KEYS("DELETE", "/v1/idempotency", Repeat.NEVER, false),
    KEYS("GET", "/v1/idempotency", Repeat.HARMLESS, false),
    DELETE_KEY("DELETE", "/v1/idempotency/{key}", Repeat.NEVER, false),
    KEY("GET", "/v1/idempotency/{key}", Repeat.HARMLESS, false),
    ABANDON_KEY("POST", "/v1/idempotency/{key}/abandon", Repeat.NEVER, false),
    BEGIN_KEY("POST", "/v1/idempotency/{key}/begin", Repeat.WITH_NONCE, false),
    COMPLETE_KEY("POST", "/v1/idempotency/{key}/complete", Repeat.HARMLESS, false),
    IDS("GET", "/v1/ids", Repeat.HARMLESS, false),
    ID_PARTS("GET", "/v1/ids/{id}", Repeat.HARMLESS, false),
    LAYOUTS("GET", "/v1/layouts", Repeat.HARMLESS, false),
    CREATE_LAYOUT("POST", "/v1/layouts", Repeat.NEVER, false),
    LAYOUT("GET", "/v1/layouts/{name}", Repeat.HARMLESS, false),
    ENCODE_ID("POST", "/v1/layouts/{name}/encode", Repeat.HARMLESS, false),
    LOCKS("GET", "/v1/locks", Repeat.HARMLESS, false),
    LOCK("GET", "/v1/locks/{name}", Repeat.HARMLESS, true),
    ACQUIRE_LOCK("POST", "/v1/locks/{name}/acquire", Repeat.NEVER, true),
    BREAK_LOCK("POST", "/v1/locks/{name}/break", Repeat.NEVER, false),
    RELEASE_LOCK("POST", "/v1/locks/{name}/release", Repeat.NEVER, false),
    RENEW_LOCK("POST", "/v1/locks/{name}/renew", Repeat.HARMLESS, false),
    VERIFY_LOCK("POST", "/v1/locks/{name}/verify", Repeat.HARMLESS, false),
    SEQUENCES("GET", "/v1/sequences", Repeat.HARMLESS, false),
    DELETE_SEQUENCE("DELETE", "/v1/sequences/{name}", Repeat.NEVER, false),
    SEQUENCE("GET", "/v1/sequences/{name}", Repeat.HARMLESS, false),
    UPDATE_SEQUENCE("PATCH", "/v1/sequences/{name}", Repeat.NEVER, false),
    CREATE_SEQUENCE("PUT", "/v1/sequences/{name}", Repeat.NEVER, false),
    ADVANCE("POST", "/v1/sequences/{name}/advance", Repeat.NEVER, false),
    NEXT("POST", "/v1/sequences/{name}/next", Repeat.NEVER, false),
    GRANT_SEGMENT("POST", "/v1/sequences/{name}/segments", Repeat.NEVER, false),
    RETURN_SEGMENT("DELETE", "/v1/sequences/{name}/segments/{grant}", Repeat.NEVER, false),
    TIMESTAMPS("POST", "/v1/timestamps/next", Repeat.HARMLESS, false),
    DELETE_ALL_ONE_TIME("DELETE", "/v1/tokens", Repeat.NEVER, false),
    ONE_TIME_TOKENS("GET", "/v1/tokens", Repeat.HARMLESS, false),
    ISSUE_TOKENS("POST", "/v1/tokens", Repeat.HARMLESS, false),
    DELETE_ONE_TIME("DELETE", "/v1/tokens/{token}", Repeat.NEVER, false),
    CONSUME_TOKEN("POST", "/v1/tokens/{token}/consume", Repeat.WITH_NONCE, false),
    UUID("GET", "/v1/uuid", Repeat.HARMLESS, false),
    UUIDS("GET", "/v1/uuids", Repeat.HARMLESS, false),
    WORKERS("GET", "/v1/workers", Repeat.HARMLESS, false),
    LEASE_WORKER("POST", "/v1/workers", Repeat.NEVER, false),
    RELEASE_WORKER("DELETE", "/v1/workers/{layout}/{id}/lease", Repeat.NEVER, false),
    RENEW_WORKER("PUT", "/v1/workers/{layout}/{id}/lease", Repeat.HARMLESS, false),
    VERSION("GET", "/version", Repeat.HARMLESS, false);

    /** Whether a request may be sent again when its response is lost. */
    enum Repeat {
        HARMLESS,
        /** If it has a nonce, by which the cluster recognizes it. */
        WITH_NONCE,
        NEVER
    }

    final String method;
    final String path;
    final Repeat repeat;
    /** Whether the node may wait for {@code wait_ms} before it responds. */
    final boolean waits;

    Operation(String method, String path, Repeat repeat, boolean waits) {
        this.method = method;
        this.path = path;
        this.repeat = repeat;
        this.waits = waits;
    }

    /** Returns the path with its parameters in order, escaped. */
    String path(List<?> parameters) {
        String filled = path;
        for (Object parameter : parameters) {
            int open = filled.indexOf('{');
            if (open < 0) {
                throw SeqdException.invalid("more parameters than " + path + " has");
            }
            int close = filled.indexOf('}', open);
            filled = filled.substring(0, open) + Endpoint.escape(parameter.toString()) + filled.substring(close + 1);
        }
        if (filled.indexOf('{') >= 0) {
            throw SeqdException.invalid("fewer parameters than " + path + " has");
        }
        return filled;
    }
}
