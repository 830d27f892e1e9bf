package seqd

import "strings"

// Format is a text form of an ID. Base62 and Crockford have a fixed width, so that texts sort as their numbers.
type Format struct {
	name, digits string
	width        int
}

// The text forms.
var (
	Dec       = Format{"dec", "0123456789", 1}
	Hex       = Format{"hex", "0123456789abcdef", 1}
	Base62    = Format{"b62", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 11}
	Crockford = Format{"crockford", "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 13}
)

// Encode returns the text of an ID.
func (f Format) Encode(id uint64) string {
	base := uint64(len(f.digits))
	var text [64]byte
	at := len(text)
	for ; id > 0 || len(text)-at < f.width; id /= base {
		at--
		text[at] = f.digits[id%base]
	}
	return string(text[at:])
}

// Parse parses an ID. Leading zeros are accepted. Crockford accepts both cases, I and L as 1, and O as 0.
func (f Format) Parse(text string) (uint64, error) {
	body := text
	switch f.name {
	case "hex":
		body = strings.TrimPrefix(strings.ToLower(text), "0x")
	case "crockford":
		body = strings.NewReplacer("I", "1", "L", "1", "O", "0").Replace(strings.ToUpper(text))
	}
	base, id := uint64(len(f.digits)), uint64(0)
	for at := range len(body) {
		digit := strings.IndexByte(f.digits, body[at])
		if digit < 0 {
			return 0, invalid("%q is not an ID of the format %s", text, f.name)
		}
		if id > (1<<64-1-uint64(digit))/base {
			return 0, invalid("%q is larger than a 64-bit number", text)
		}
		id = id*base + uint64(digit)
	}
	if body == "" {
		return 0, invalid("%q is not an ID of the format %s", text, f.name)
	}
	return id, nil
}
