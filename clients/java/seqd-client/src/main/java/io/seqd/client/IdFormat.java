package io.seqd.client;

import java.util.Locale;

/** The text forms of an ID. Base62 and Crockford have a fixed width, so that texts sort as their numbers. */
public enum IdFormat {
    /** Decimal digits. */
    DEC("0123456789", 0),
    /** Lower-case hexadecimal without a prefix. */
    HEX("0123456789abcdef", 0),
    /** {@code 0-9A-Za-z}, 11 characters. */
    BASE62("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 11),
    /** Crockford's base 32, 13 characters. Parsing accepts both cases, I and L as 1, and O as 0. */
    CROCKFORD("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 13);

    private final String digits;
    private final int width;

    IdFormat(String digits, int width) {
        this.digits = digits;
        this.width = width;
    }

    /** Returns the text of an ID, which is unsigned. */
    public String encode(long id) {
        StringBuilder out = new StringBuilder();
        long base = digits.length();
        for (long rest = id; rest != 0; rest = Long.divideUnsigned(rest, base)) {
            out.append(digits.charAt((int) Long.remainderUnsigned(rest, base)));
        }
        while (out.length() < Math.max(width, 1)) {
            out.append('0');
        }
        return out.reverse().toString();
    }

    /** Parses an ID. Leading zeros are accepted. */
    public long parse(String text) {
        String body = this == HEX && text.toLowerCase(Locale.ROOT).startsWith("0x") ? text.substring(2) : text;
        if (body.isEmpty()) {
            throw notOfFormat(text);
        }
        long base = digits.length();
        long id = 0;
        for (char c : body.toCharArray()) {
            int digit = digits.indexOf(normal(c));
            if (digit < 0) {
                throw notOfFormat(text);
            }
            long most = Long.divideUnsigned(-1L - digit, base);
            if (Long.compareUnsigned(id, most) > 0) {
                throw SeqdException.invalid("\"" + text + "\" is larger than a 64-bit number");
            }
            id = id * base + digit;
        }
        return id;
    }

    private char normal(char c) {
        if (c >= 128) {
            return c;
        }
        if (this == HEX) {
            return Character.toLowerCase(c);
        }
        if (this != CROCKFORD) {
            return c;
        }
        char upper = Character.toUpperCase(c);
        return upper == 'I' || upper == 'L' ? '1' : upper == 'O' ? '0' : upper;
    }

    private SeqdException notOfFormat(String text) {
        return SeqdException.invalid("\"" + text + "\" is not an ID of the format " + name().toLowerCase(Locale.ROOT));
    }
}
