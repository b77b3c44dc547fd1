//! URLs of mirrors: the subset of `http` and `https` that mirrors need.

use std::fmt;

/// Maximum length of a URL.
const URL_BYTES_MAX: usize = 8192;

/// Scheme of a URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port of a URL without one.
    fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// The URL of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// Scheme.
    pub scheme: Scheme,
    /// Name or address; IPv6 without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path and query, from the first `/` on.
    pub target: String,
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme.name(), self.authority(), self.target)
    }
}

impl Url {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// Why it is invalid.
    pub fn parse(text: &str) -> Result<Url, String> {
        let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        let (scheme, rest) = if lower.starts_with("https://") {
            (Scheme::Https, &text[8..])
        } else if lower.starts_with("http://") {
            (Scheme::Http, &text[7..])
        } else {
            return Err(format!("{text}: not a URL that begins with http:// or https://"));
        };
        if text.len() > URL_BYTES_MAX || text.bytes().any(|byte| byte <= b' ' || byte >= 0x7f) {
            return Err(format!(
                "{text:.80}: a URL has no spaces and no characters but ASCII, and at most {URL_BYTES_MAX} of them"
            ));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err(format!("{text}: a name and password in a URL are not supported"));
        }
        let (host, port) = split_port(authority).ok_or_else(|| format!("{text}: no host, or a wrong port"))?;
        let port = port.unwrap_or(scheme.port());
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Url { scheme, host: host.to_owned(), port, target })
    }

    /// Resolves the target of a redirect from this URL.
    ///
    /// # Errors
    ///
    /// The target is not a URL, or changes from HTTPS to HTTP.
    pub fn join(&self, location: &str) -> Result<Url, String> {
        let text = if location.contains("://") {
            location.to_owned()
        } else if let Some(rest) = location.strip_prefix("//") {
            format!("{}://{rest}", self.scheme.name())
        } else {
            let path = self.target.split('?').next().unwrap_or_default();
            let dir = &path[..path.rfind('/').map_or(0, |at| at + 1)];
            let target = if location.starts_with('/') { location.to_owned() } else { format!("{dir}{location}") };
            Url { target, ..self.clone() }.to_string()
        };
        let to = Url::parse(&text)?;
        if self.scheme == Scheme::Https && to.scheme == Scheme::Http {
            return Err(format!("it redirects from HTTPS to plain HTTP ({to})"));
        }
        Ok(to)
    }

    /// Host and port as written in a URL and in the header Host: without the scheme's own port.
    pub fn authority(&self) -> String {
        let host = self.host_in_url();
        if self.port == self.scheme.port() { host } else { format!("{host}:{}", self.port) }
    }

    /// The host; IPv6 in brackets.
    pub fn host_in_url(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    /// Whether both URLs can share a connection.
    pub fn is_same_server(&self, other: &Url) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }
}

/// Splits host and port; `None` if the host is empty, or the port is not a number above 0.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host.parse::<std::net::Ipv6Addr>().is_ok().then_some(host)?, rest)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some("") => None,
        Some(port) => Some(port.parse().ok().filter(|&port| port > 0)?),
        None if rest.is_empty() => None,
        None => return None,
    };
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_they_are_written() {
        for (text, host, port, target) in [
            ("http://example.org/utxo.dat", "example.org", 80, "/utxo.dat"),
            ("HTTPS://example.org", "example.org", 443, "/"),
            ("https://example.org:8443/a/b?x=1#top", "example.org", 8443, "/a/b?x=1"),
            ("http://[::1]:81/x", "::1", 81, "/x"),
            ("http://127.0.0.1:5/?q", "127.0.0.1", 5, "/?q"),
            ("http://example.org?q", "example.org", 80, "/?q"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.host.as_str(), url.port, url.target.as_str()), (host, port, target), "{text}");
            assert_eq!(Url::parse(&url.to_string()).unwrap(), url, "{text}");
        }
        for text in [
            "ftp://a/b",
            "utxo.dat",
            "http://",
            "http:///x",
            "http://a:0/",
            "http://a:99999/",
            "http://[::1/",
            "http://[x]/",
            "http://u:p@a/",
            "http://a/ b",
            "http://a/\r\nX: y",
            "http://[::1]x/",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
        assert!(Url::parse(&format!("http://a/{}", "x".repeat(URL_BYTES_MAX))).is_err());
    }

    #[test]
    fn redirects_lead_where_they_say_and_not_out_of_tls() {
        let from = Url::parse("https://a.org/dir/file?x=1").unwrap();
        for (location, want) in [
            ("https://b.org/y", "https://b.org/y"),
            ("//c.org:5/z", "https://c.org:5/z"),
            ("/top", "https://a.org/top"),
            ("beside", "https://a.org/dir/beside"),
        ] {
            assert_eq!(from.join(location).unwrap().to_string(), want, "{location}");
        }
        assert!(from.join("http://a.org/").unwrap_err().contains("plain HTTP"));
        assert!(from.join("ftp://a.org/").is_err());
        assert!(Url::parse("http://a.org/").unwrap().join("https://a.org/x").is_ok());
    }
}
