package io.seqd.client;

import java.net.URI;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The address of a node as users write it: {@code host}, {@code host:port} or a URL. The default port is 7400. */
record Endpoint(String scheme, String authority) {
    private static final int DEFAULT_PORT = 7400;

    static Endpoint parse(String written, boolean isSecure) {
        String text = written.trim();
        int colon = text.indexOf("://");
        String scheme = colon < 0 ? (isSecure ? "https" : "http") : text.substring(0, colon);
        String rest = colon < 0 ? text : text.substring(colon + 3);
        if (!scheme.equals("http") && !scheme.equals("https")) {
            throw malformed(text, "the scheme must be http or https");
        }
        String authority = rest.endsWith("/") ? rest.substring(0, rest.length() - 1) : rest;
        if (authority.chars().anyMatch(c -> "/?#@".indexOf(c) >= 0)) {
            throw malformed(text, "an endpoint has only a host and a port");
        }
        String afterV6 = authority.substring(authority.lastIndexOf(']') + 1);
        String whole = afterV6.contains(":") ? authority : authority + ":" + DEFAULT_PORT;
        try {
            URI uri = new URI(scheme + "://" + whole).parseServerAuthority();
            if (uri.getHost() == null || uri.getPort() < 1 || uri.getPort() > 65535) {
                throw malformed(text, "the port must be 1 to 65535");
            }
        } catch (URISyntaxException error) {
            throw malformed(text, "the host or the port is invalid");
        }
        return new Endpoint(scheme, whole);
    }

    private static SeqdException malformed(String text, String reason) {
        return SeqdException.invalid("\"" + text + "\" is not an endpoint: " + reason);
    }

    /** Parses a comma-separated list. */
    static List<Endpoint> parseList(String list, boolean isSecure) {
        List<Endpoint> endpoints = new ArrayList<>();
        for (String text : list.split(",")) {
            if (!text.isBlank()) {
                endpoints.add(parse(text, isSecure));
            }
        }
        if (endpoints.isEmpty()) {
            throw SeqdException.invalid("no endpoints are given");
        }
        return endpoints;
    }

    boolean isHttps() {
        return scheme.equals("https");
    }

    URI url(String path, Map<String, String> query) {
        StringBuilder url = new StringBuilder(scheme).append("://").append(authority).append(path);
        char mark = '?';
        for (Map.Entry<String, String> entry : query.entrySet()) {
            url.append(mark).append(escape(entry.getKey())).append('=').append(escape(entry.getValue()));
            mark = '&';
        }
        return URI.create(url.toString());
    }

    /** Escapes a path parameter or a query value: every byte except unreserved ones. */
    static String escape(String text) {
        StringBuilder out = new StringBuilder();
        for (byte raw : text.getBytes(StandardCharsets.UTF_8)) {
            char c = (char) (raw & 0xff);
            boolean isKept = c < 128 && (Character.isLetterOrDigit(c) || "-._~:".indexOf(c) >= 0);
            if (isKept) {
                out.append(c);
            } else {
                out.append(String.format("%%%02X", (int) c));
            }
        }
        return out.toString();
    }

    @Override
    public String toString() {
        return authority;
    }
}
