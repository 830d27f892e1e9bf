//! Replies of the Redis protocol, in its versions 2 and 3.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

/// The version of the protocol that a client has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    #[default]
    Two,
    Three,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Simple(Cow<'static, str>),
    /// The code and the text.
    Error(Cow<'static, str>),
    Integer(i64),
    Bulk(Bytes),
    Null,
    Array(Vec<Reply>),
    /// In version 2, an array of keys and values.
    Map(Vec<(&'static str, Reply)>),
    /// A message of a subscription; in version 2, an array.
    Push(Vec<Reply>),
    /// Several replies to one request.
    Several(Vec<Reply>),
}

impl Reply {
    pub(super) const OK: Reply = Reply::Simple(Cow::Borrowed("OK"));

    pub(super) fn error(text: impl Into<Cow<'static, str>>) -> Reply {
        Reply::Error(text.into())
    }

    pub(super) fn bulk(text: impl ToString) -> Reply {
        Reply::Bulk(text.to_string().into())
    }

    /// An integer, or a text if it has more than 63 bits.
    pub(super) fn number(number: u64) -> Reply {
        i64::try_from(number).map_or_else(|_| Reply::bulk(number), Reply::Integer)
    }

    pub(super) fn write(&self, version: Version, out: &mut BytesMut) {
        match self {
            Reply::Simple(text) => line(b'+', text, out),
            Reply::Error(text) => line(b'-', text, out),
            Reply::Integer(number) => line(b':', &number.to_string(), out),
            Reply::Bulk(text) => {
                line(b'$', &text.len().to_string(), out);
                out.put_slice(text);
                out.put_slice(b"\r\n");
            }
            Reply::Null => out.put_slice(match version {
                Version::Two => b"$-1\r\n",
                Version::Three => b"_\r\n",
            }),
            Reply::Array(items) | Reply::Push(items) => {
                let kind = match (self, version) {
                    (Reply::Push(_), Version::Three) => b'>',
                    _ => b'*',
                };
                line(kind, &items.len().to_string(), out);
                items.iter().for_each(|item| item.write(version, out));
            }
            Reply::Several(replies) => {
                replies.iter().for_each(|reply| reply.write(version, out));
            }
            Reply::Map(pairs) => {
                let (kind, length) = match version {
                    Version::Two => (b'*', 2 * pairs.len()),
                    Version::Three => (b'%', pairs.len()),
                };
                line(kind, &length.to_string(), out);
                for (key, value) in pairs {
                    Reply::bulk(key).write(version, out);
                    value.write(version, out);
                }
            }
        }
    }
}

/// A line of one kind. A line end in the text would begin another reply.
fn line(kind: u8, text: &str, out: &mut BytesMut) {
    out.put_u8(kind);
    let bytes = text.bytes();
    out.extend(bytes.map(|byte| if byte < b' ' { b' ' } else { byte }));
    out.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply, version: Version) -> String {
        let mut out = BytesMut::new();
        reply.write(version, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn a_null_and_a_map_have_a_form_of_their_own_in_version_3() {
        let map = Reply::Map(vec![("proto", Reply::Integer(3)), ("role", Reply::Null)]);
        let two = "*4\r\n$5\r\nproto\r\n:3\r\n$4\r\nrole\r\n$-1\r\n";
        assert_eq!(written(&map, Version::Two), two);
        let three = "%2\r\n$5\r\nproto\r\n:3\r\n$4\r\nrole\r\n_\r\n";
        assert_eq!(written(&map, Version::Three), three);
    }

    #[test]
    fn an_error_is_one_line_whatever_its_text() {
        let error = Reply::error("ERR a\r\n+OK");
        assert_eq!(written(&error, Version::Two), "-ERR a  +OK\r\n");
        let bulk = Reply::Array(vec![Reply::bulk("a\r\nb"), Reply::number(u64::MAX)]);
        let text = "*2\r\n$4\r\na\r\nb\r\n$20\r\n18446744073709551615\r\n";
        assert_eq!(written(&bulk, Version::Two), text);
    }
}
