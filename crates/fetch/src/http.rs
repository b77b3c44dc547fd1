//! HTTP/1.1 for downloads of one file: requests for a range of bytes, and the heads of answers. Bytes in, values out.
//!
//! Absent on purpose: sockets, bodies, cookies, compression, bodies of unknown length.
//! Source: RFC 9110, RFC 9112.

use crate::url::Url;

/// Maximum bytes of a head; a longer one is refused.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// Maximum bytes of a value that is kept or shown.
const VALUE_BYTES_MAX: usize = 256;

/// The relevant fields of an answer's head.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// Reason phrase.
    pub reason: String,
    /// Content-Length.
    pub length: Option<u64>,
    /// Content-Range.
    range: Option<String>,
    encoding: Option<String>,
    kind: Option<String>,
    location: Option<String>,
    /// ETag, else Last-Modified.
    tag: Option<String>,
    has_transfer_encoding: bool,
    /// Whether the connection can be used again.
    pub keeps_alive: bool,
}

/// Why an answer is not used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Permanent: it will be the same next time.
    Never(String),
    /// Temporary: a later request may succeed.
    Later(String),
}

/// Contents of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Offer {
    /// Bytes of the file.
    Body(Body),
    /// A redirect.
    Moved(String),
}

/// Range of the bytes that follow a head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body {
    /// Offset of the first byte in the file.
    pub from: u64,
    /// Offset of the end in the file.
    pub to: u64,
    /// Length of the file.
    pub total: u64,
    /// Whether the server supports ranges; otherwise it sends the whole file each time.
    pub has_ranges: bool,
    /// Version of the file: ETag, else Last-Modified.
    pub tag: Option<String>,
}

/// A request for the bytes from `from` up to `to`, or to the end of the file.
pub fn request(url: &Url, from: u64, to: Option<u64>, agent: &str) -> Vec<u8> {
    let last = to.map_or(String::new(), |to| (to - 1).to_string());
    format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {agent}\r\nAccept: */*\r\nAccept-Encoding: identity\r\nRange: \
         bytes={from}-{last}\r\n\r\n",
        url.target,
        url.authority()
    )
    .into_bytes()
}

/// End of the head at the start of `bytes`; `None` if it is incomplete.
pub fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// Parses a head, from its first byte to the empty line.
///
/// # Errors
///
/// It is not HTTP/1.
pub fn parse_head(bytes: &[u8]) -> Result<Head, Failure> {
    let wrong = || Failure::Never("it does not speak HTTP/1".to_owned());
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split("\r\n");
    let mut first = lines.next().ok_or_else(wrong)?.splitn(3, ' ');
    let version = first.next().filter(|version| version.starts_with("HTTP/1.")).ok_or_else(wrong)?;
    let status = first.next().filter(|code| code.len() == 3).and_then(|code| code.parse().ok()).ok_or_else(wrong)?;
    let reason = clean(first.next().unwrap_or_default());
    let mut head = Head { status, reason, keeps_alive: version != "HTTP/1.0", ..Head::default() };
    let mut changed = None;
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let length = value.parse().map_err(|_| wrong())?;
                if head.length.replace(length).is_some_and(|other| other != length) {
                    return Err(wrong());
                }
            }
            "content-range" => head.range = Some(clean(value)),
            "content-encoding" => head.encoding = Some(clean(value)),
            "content-type" => head.kind = Some(clean(value).to_ascii_lowercase()),
            "location" => head.location = Some(value.to_owned()),
            "etag" => head.tag = Some(clean(value)),
            "last-modified" => changed = Some(clean(value)),
            "transfer-encoding" => head.has_transfer_encoding = true,
            "connection" if value.eq_ignore_ascii_case("close") => head.keeps_alive = false,
            _ => {}
        }
    }
    head.tag = head.tag.or(changed);
    Ok(head)
}

/// Text of a mirror, made printable and short.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(VALUE_BYTES_MAX).collect()
}

impl Head {
    /// Interprets the answer to a request for the bytes from `from` on.
    ///
    /// # Errors
    ///
    /// Why the answer is unusable.
    pub fn offer(&self, from: u64, to: Option<u64>) -> Result<Offer, Failure> {
        let never = |why: String| Err(Failure::Never(why));
        match self.status {
            200 | 206 => {}
            301 | 302 | 303 | 307 | 308 => {
                let location = self.location.clone();
                return location.map(Offer::Moved).ok_or_else(|| Failure::Never("it redirects to nowhere".to_owned()));
            }
            408 | 425 | 429 | 500..=599 => return Err(Failure::Later(self.status_text())),
            _ => return never(self.status_text()),
        }
        if let Some(kind) = self.kind.as_deref().filter(|kind| kind.starts_with("text/html")) {
            return never(format!("it answers with a web page ({kind}) in place of the file"));
        }
        if let Some(encoding) = self.encoding.as_deref().filter(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
            return never(format!("it sends the file packed ({encoding}), which was not asked for"));
        }
        let Some(length) = self.length.filter(|_| !self.has_transfer_encoding) else {
            return never("it does not send the length of the file (no Content-Length)".to_owned());
        };
        let tag = self.tag.clone();
        if self.status == 200 {
            return Ok(Offer::Body(Body { from: 0, to: length, total: length, has_ranges: false, tag }));
        }
        let range = self.range.as_deref().unwrap_or_default();
        let Some((first, last, total)) = parse_range(range) else {
            return never(format!("it sends a part of the file without saying which (Content-Range \"{range}\")"));
        };
        let end = to.unwrap_or(total).min(total);
        if first != from || last < first || last >= total || last >= end || length != last - first + 1 {
            return never(format!("it sends another part of the file than was asked for (Content-Range \"{range}\")"));
        }
        Ok(Offer::Body(Body { from, to: last + 1, total, has_ranges: true, tag }))
    }

    fn status_text(&self) -> String {
        format!("{} {}", self.status, self.reason).trim_end().to_owned()
    }
}

/// First, last and total of `bytes 0-99/1000`.
fn parse_range(text: &str) -> Option<(u64, u64, u64)> {
    let (part, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = part.split_once('-')?;
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?, total.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(lines: &str) -> Result<Head, Failure> {
        parse_head(format!("{}\r\n\r\n", lines.replace('|', "\r\n")).as_bytes())
    }

    fn offer(lines: &str) -> Result<Offer, Failure> {
        head(lines)?.offer(100, Some(200))
    }

    #[test]
    fn requests_ask_for_a_range() {
        let url = Url::parse("http://[::1]:81/a?b").unwrap();
        let text = String::from_utf8(request(&url, 5, Some(10), "x")).unwrap();
        assert!(text.starts_with("GET /a?b HTTP/1.1\r\nHost: [::1]:81\r\n"), "{text}");
        assert!(text.contains("\r\nRange: bytes=5-9\r\n") && text.ends_with("\r\n\r\n"), "{text}");
        assert!(String::from_utf8(request(&url, 5, None, "x")).unwrap().contains("bytes=5-\r\n"));
    }

    #[test]
    fn answers_are_taken_or_refused_with_the_reason() {
        let part = "HTTP/1.1 206 Partial Content|Content-Length: 100|Content-Range: bytes 100-199/1000";
        let Ok(Offer::Body(body)) = offer(&format!("{part}|ETag: \"x\"|Last-Modified: then")) else { panic!() };
        assert_eq!(body, Body { from: 100, to: 200, total: 1000, has_ranges: true, tag: Some("\"x\"".to_owned()) });
        let Ok(Offer::Body(body)) = offer("HTTP/1.1 200 OK|content-length:1000|Last-Modified: then") else { panic!() };
        assert_eq!((body.from, body.to, body.has_ranges, body.tag.as_deref()), (0, 1000, false, Some("then")));
        assert_eq!(offer("HTTP/1.1 302 Found|Location: /x"), Ok(Offer::Moved("/x".to_owned())));
        for (row, lines, want) in [
            ("404", "HTTP/1.1 404 Not Found|Content-Length: 3", Failure::Never("404 Not Found".into())),
            ("503", "HTTP/1.1 503 Busy", Failure::Later("503 Busy".into())),
            ("429", "HTTP/1.1 429", Failure::Later("429".into())),
        ] {
            assert_eq!(offer(lines), Err(want), "{row}");
        }
        for (row, lines, want) in [
            ("a web page", "HTTP/1.1 200 OK|Content-Type: text/html; charset=x|Content-Length: 4", "web page"),
            ("gzip", "HTTP/1.1 200 OK|Content-Encoding: gzip|Content-Length: 4", "packed (gzip)"),
            ("chunks", "HTTP/1.1 200 OK|Transfer-Encoding: chunked", "length of the file"),
            ("no length", "HTTP/1.1 200 OK", "length of the file"),
            ("no range", "HTTP/1.1 206 X|Content-Length: 100", "without saying which"),
            ("another range", "HTTP/1.1 206 X|Content-Length: 100|Content-Range: bytes 0-99/1000", "another part"),
            ("too much", "HTTP/1.1 206 X|Content-Length: 101|Content-Range: bytes 100-200/1000", "another part"),
            ("another length", "HTTP/1.1 206 X|Content-Length: 99|Content-Range: bytes 100-199/1000", "another part"),
            ("backwards", "HTTP/1.1 206 X|Content-Length: 0|Content-Range: bytes 100-99/1000", "another part"),
            ("beyond the end", "HTTP/1.1 206 X|Content-Length: 100|Content-Range: bytes 100-199/150", "another part"),
            ("two lengths", "HTTP/1.1 200 OK|Content-Length: 4|Content-Length: 5", "HTTP/1"),
            ("nowhere", "HTTP/1.1 302 Found", "nowhere"),
            ("another protocol", "SSH-2.0-OpenSSH_9", "HTTP/1"),
            ("a header without a name", "HTTP/1.1 200 OK|x", "HTTP/1"),
        ] {
            let Err(Failure::Never(why)) = offer(lines) else { panic!("{row}") };
            assert!(why.contains(want), "{row}: {why}");
        }
        assert!(!head("HTTP/1.1 404 a\x1b[31mb").unwrap().reason.contains('\x1b'), "nothing that a terminal obeys");
    }

    /// Every cut and flipped bit of a head: an answer, and no panic.
    #[test]
    fn any_bytes_are_read() {
        let good = b"HTTP/1.1 206 P\r\nContent-Length: 100\r\nContent-Range: bytes 100-199/1000\r\nETag: x\r\n\r\n";
        for end in 0..good.len() {
            let _ = parse_head(&good[..end]).map(|head| head.offer(100, None));
        }
        for bit in 0..good.len() * 8 {
            let mut bytes = good.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(Ok(Offer::Body(body))) = parse_head(&bytes).map(|head| head.offer(100, Some(200))) {
                assert!(body.from < body.to && body.to <= body.total, "{body:?}");
            }
        }
        assert_eq!(head_end(good), Some(good.len()));
        assert_eq!(head_end(&good[..good.len() - 1]), None);
    }
}
