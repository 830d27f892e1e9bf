package io.seqd.client;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads and writes JSON. Objects are maps, arrays are lists, integers that fit are {@code Long}, other numbers are
 * {@code BigDecimal}.
 */
final class Json {
    /** The deepest nesting. A node reads and writes at most 127 levels; a bound keeps the stack. */
    private static final int MAX_DEPTH = 128;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Reads one value. Throws {@code IllegalArgumentException} for anything else. */
    static Object read(String text) {
        Json json = new Json(text);
        Object value = json.value(0);
        json.skipBlanks();
        if (json.at != text.length()) {
            throw json.wrong("text after the value");
        }
        return value;
    }

    private IllegalArgumentException wrong(String what) {
        return new IllegalArgumentException("not JSON: " + what + " at character " + at);
    }

    private void skipBlanks() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private char next() {
        if (at >= text.length()) {
            throw wrong("the text ends early");
        }
        return text.charAt(at++);
    }

    private boolean skip(char expected) {
        skipBlanks();
        if (at < text.length() && text.charAt(at) == expected) {
            at++;
            return true;
        }
        return false;
    }

    private Object value(int depth) {
        if (depth > MAX_DEPTH) {
            throw wrong("too many levels");
        }
        skipBlanks();
        char first = next();
        switch (first) {
            case '{':
                return object(depth);
            case '[':
                return array(depth);
            case '"':
                return string();
            case 't':
                return word("true", Boolean.TRUE);
            case 'f':
                return word("false", Boolean.FALSE);
            case 'n':
                return word("null", null);
            default:
                at--;
                return number();
        }
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at - 1)) {
            throw wrong("an unknown word");
        }
        at += word.length() - 1;
        return value;
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> object = new LinkedHashMap<>();
        if (skip('}')) {
            return object;
        }
        do {
            if (!skip('"')) {
                throw wrong("a key is missing");
            }
            String key = string();
            if (!skip(':')) {
                throw wrong("a colon is missing");
            }
            object.put(key, value(depth + 1));
        } while (skip(','));
        if (!skip('}')) {
            throw wrong("an object does not end");
        }
        return object;
    }

    private List<Object> array(int depth) {
        List<Object> array = new ArrayList<>();
        if (skip(']')) {
            return array;
        }
        do {
            array.add(value(depth + 1));
        } while (skip(','));
        if (!skip(']')) {
            throw wrong("an array does not end");
        }
        return array;
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        for (char c = next(); c != '"'; c = next()) {
            if (c < ' ') {
                throw wrong("a control character in a string");
            }
            out.append(c == '\\' ? escaped() : c);
        }
        return out.toString();
    }

    private char escaped() {
        char c = next();
        switch (c) {
            case '"':
            case '\\':
            case '/':
                return c;
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                int code = 0;
                for (int digit = 0; digit < 4; digit++) {
                    int value = Character.digit(next(), 16);
                    if (value < 0) {
                        throw wrong("an invalid escape");
                    }
                    code = code * 16 + value;
                }
                return (char) code;
            default:
                throw wrong("an invalid escape");
        }
    }

    private Object number() {
        int start = at;
        while (at < text.length() && "+-.0123456789Ee".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String digits = text.substring(start, at);
        try {
            // 18 digits always fit; more are decided by BigDecimal.
            if (digits.length() <= 18 && digits.matches("-?(0|[1-9][0-9]*)")) {
                return Long.valueOf(digits);
            }
            BigDecimal number = new BigDecimal(digits);
            boolean isLong = digits.matches("-?[0-9]+") && number.toBigInteger().bitLength() < 64;
            return isLong ? (Object) number.longValueExact() : number;
        } catch (NumberFormatException error) {
            throw wrong("an invalid number");
        }
    }

    /** Writes maps, iterables, numbers, booleans, null, and every other value as its string. */
    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(out, value, 0);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value, int depth) {
        if (depth > MAX_DEPTH) {
            throw new IllegalArgumentException("a value with more than " + MAX_DEPTH + " levels");
        }
        if (value == null || value instanceof Boolean || value instanceof Number) {
            boolean isFloat = value instanceof Double || value instanceof Float;
            if (isFloat && !Double.isFinite(((Number) value).doubleValue())) {
                throw new IllegalArgumentException("JSON has no " + value);
            }
            out.append(value);
        } else if (value instanceof Raw raw) {
            out.append(raw.json());
        } else if (value instanceof Map<?, ?> map) {
            String comma = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(comma);
                quote(out, String.valueOf(entry.getKey()));
                out.append(':');
                write(out, entry.getValue(), depth + 1);
                comma = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> items) {
            out.append('[');
            String comma = "";
            for (Object item : items) {
                out.append(comma);
                write(out, item, depth + 1);
                comma = ",";
            }
            out.append(']');
        } else if (value instanceof CharSequence || value instanceof Character || value instanceof Enum) {
            quote(out, value.toString());
        } else {
            throw new IllegalArgumentException(value.getClass().getName() + " has no form in JSON: use null, a "
                    + "boolean, a number, a string, a list or a map");
        }
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (int at = 0; at < text.length(); at++) {
            char c = text.charAt(at);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c) && isAlone(text, at)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    private static boolean isAlone(String text, int at) {
        char c = text.charAt(at);
        boolean begins = Character.isHighSurrogate(c) && at + 1 < text.length()
                && Character.isLowSurrogate(text.charAt(at + 1));
        boolean ends = Character.isLowSurrogate(c) && at > 0 && Character.isHighSurrogate(text.charAt(at - 1));
        return !begins && !ends;
    }

    /** A text that already is JSON, and is written unchanged. */
    record Raw(String json) {}
}
