package io.seqd.client;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The fields of a response. Unknown fields are ignored, because later servers add fields. A number may be a JSON
 * string, because integers that may exceed 2^53 are sent as strings.
 */
public final class Answer {
    private final Map<String, Object> fields;

    Answer(Map<String, Object> fields) {
        this.fields = fields;
    }

    @SuppressWarnings("unchecked")
    static Answer of(Object value) {
        if (value instanceof Map<?, ?> map) {
            return new Answer((Map<String, Object>) map);
        }
        throw new IllegalArgumentException("the response is not an object");
    }

    /** Returns all fields as read: maps, lists, strings, {@code Long}, {@code BigDecimal}, booleans and null. */
    public Map<String, Object> fields() {
        return fields;
    }

    /** Returns whether the field exists and is not null. */
    public boolean has(String name) {
        return fields.get(name) != null;
    }

    /** Returns a field as text, or null if it is null or missing. */
    public String textOrNull(String name) {
        Object value = fields.get(name);
        return value == null ? null : value.toString();
    }

    /** Returns a field as text. */
    public String text(String name) {
        return required(name).toString();
    }

    /** Returns an integer field. */
    public long integer(String name) {
        return integerOf(name, required(name));
    }

    /** Returns an integer field, or this value if it is null or missing. */
    public long integer(String name, long otherwise) {
        return has(name) ? integer(name) : otherwise;
    }

    /** Returns a boolean field; a missing one is false. */
    public boolean flag(String name) {
        return Boolean.TRUE.equals(fields.get(name));
    }

    /** Returns an object field. */
    public Answer object(String name) {
        return of(required(name));
    }

    /** Returns an array of integers. */
    long[] integers(String name) {
        List<?> items = items(name);
        long[] values = new long[items.size()];
        for (int at = 0; at < values.length; at++) {
            values[at] = integerOf(name, items.get(at));
        }
        return values;
    }

    /** Returns an array of texts. */
    List<String> texts(String name) {
        List<String> texts = new ArrayList<>();
        items(name).forEach(item -> texts.add(String.valueOf(item)));
        return texts;
    }

    /** Returns an array of objects. */
    public List<Answer> objects(String name) {
        List<Answer> objects = new ArrayList<>();
        items(name).forEach(item -> objects.add(of(item)));
        return objects;
    }

    private List<?> items(String name) {
        if (required(name) instanceof List<?> items) {
            return items;
        }
        throw new IllegalArgumentException("the field " + name + " is not an array");
    }

    private Object required(String name) {
        Object value = fields.get(name);
        if (value == null) {
            throw new IllegalArgumentException("the field " + name + " is missing");
        }
        return value;
    }

    private static long integerOf(String name, Object value) {
        try {
            return Long.parseLong(value.toString());
        } catch (NumberFormatException error) {
            throw new IllegalArgumentException("the field " + name + " is not a 64-bit integer");
        }
    }

    @Override
    public String toString() {
        return Json.write(fields);
    }
}
