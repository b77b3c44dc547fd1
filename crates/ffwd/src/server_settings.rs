//! The options of the RPC server: its addresses, and its access control.
//!
//! Source: facts of Bitcoin Core b88bffe, httpserver.cpp, `GetBindAddresses`; httprpc.cpp, `InitRPCAuthentication`.
//! Absent on purpose: answering calls (`server`). Passwords are never printed.

use crate::Failure;
use crate::args::server::Server;
use crate::checks;
use crate::conf::{Setting, Value};
use crate::settings::{Files, Settings, number};
use server::settings::{self, CookiePermissions, Subnet};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the cookie file in the network's directory. Source: Core's `COOKIEAUTH_FILE`.
const COOKIE_FILE: &str = ".cookie";
/// Maximum timeout for clients, also if the user wants no timeout: a dead connection ends some day.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

impl Settings {
    /// The settings of the server; `None` if there is to be no server. `is_wanted` is the default of `server`.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    pub(crate) fn server(&mut self, given: &Server, is_wanted: bool) -> Result<Option<settings::Settings>, Failure> {
        let files = &mut self.files;
        let wanted = files.flag(given, "server")?;
        if !wanted.unwrap_or(is_wanted) {
            return Ok(None);
        }
        let net_dir = self.options.datadir.join(self.options.params.chain.net_dir());
        let whole = |name: &str, files: &mut Files| {
            files.value(given.one::<u16>(name).map(i64::from), name, |setting| Ok(number(setting).clamp(1, 65_535)))
        };
        let mut made = settings::Settings {
            user: secret(given, "rpcuser", files)?,
            password: secret(given, "rpcpassword", files)?,
            auth: secrets(given, "rpcauth", files)?,
            whitelist: files.texts(given, "rpcwhitelist"),
            whitelist_default: files.flag(given, "rpcwhitelistdefault")?,
            rest: files.flag(given, "rest")?.unwrap_or(false),
            accepts_nonstandard: files.flag(given, "acceptnonstdtxn")?.unwrap_or(false),
            ..settings::Settings::default()
        };
        #[cfg(feature = "regtest-tools")]
        if let Some(hours) = files.option(given, "mempoolexpiry", |setting| {
            u32::try_from(number(setting)).map_err(|_| "expected a number of hours".to_owned())
        })? {
            made.mempool_expiry = Some(Duration::from_secs(u64::from(hours) * 3600));
        }
        let number_of = |value: i64| usize::try_from(value).unwrap_or(1);
        if let Some(threads) = whole("rpcthreads", files)? {
            made.threads = number_of(threads).min(256);
        }
        if let Some(depth) = whole("rpcworkqueue", files)? {
            made.work_queue = number_of(depth);
        }
        if let Some(most) = whole("rpcmaxconnections", files)? {
            made.max_connections = number_of(most);
        }
        let seconds = given.one::<u16>("rpcservertimeout").map(i64::from);
        if let Some(seconds) = files.value(seconds, "rpcservertimeout", |setting| Ok(number(setting)))? {
            made.timeout = timeout(seconds);
        }
        made.allow = allowed(&files.texts(given, "rpcallowip"))?;
        made.cookie_file = cookie(given, files, &net_dir)?;
        let permissions = files.option(given, "rpccookieperms", |setting| Ok(setting.value.text().to_owned()))?;
        if let Some(name) = permissions {
            made.cookie_permissions = CookiePermissions::parse(&name).ok_or_else(|| {
                Failure::Usage(format!("Invalid -rpccookieperms={name}; must be one of 'owner', 'group', or 'all'."))
            })?;
        }
        made.bind = self.rpc_addresses(given, !made.allow.is_empty())?;
        Ok(Some(made))
    }

    fn rpc_addresses(&mut self, given: &Server, has_allowed: bool) -> Result<Vec<SocketAddr>, Failure> {
        let files = &mut self.files;
        let port = files.port(given, "rpcport")?;
        let port = port.unwrap_or(self.options.params.rpc_port);
        let bind = files.texts(given, "rpcbind");
        if let Some(text) = bind.iter().find(|text| !has_good_port(text)) {
            return Err(Failure::Usage(format!("Invalid port specified in -rpcbind: '{text}'")));
        }
        if bind.is_empty() || !has_allowed {
            return Ok(settings::loopback(port));
        }
        let mut addresses = Vec::new();
        for text in &bind {
            let found = addresses_of(text, port);
            addresses.extend(found.map_err(|why| Failure::Usage(format!("-rpcbind={text}: {why}")))?);
        }
        Ok(addresses)
    }
}

/// The timeout for clients. Source: Bitcoin Core b88bffe, httpserver.cpp, `m_rpcservertimeout`: 0 or
/// less means no timeout.
fn timeout(seconds: i64) -> Duration {
    let wanted = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs);
    wanted.unwrap_or(TIMEOUT_MAX).min(TIMEOUT_MAX)
}

/// Whether the port of an address is absent or at least 1. Source: Bitcoin Core b88bffe, `CheckHostPortOptions`,
/// `SplitHostPort`.
fn has_good_port(text: &str) -> bool {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            port.parse::<u16>().is_ok_and(|port| port > 0)
        }
        _ => true, // No port, or IPv6 without brackets.
    }
}

/// Parses IP, IP:PORT or a host name of this machine.
fn addresses_of(text: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    if let Ok(ip) = text.trim_matches(['[', ']']).parse() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    let found = match text.contains(':') {
        true => text.to_socket_addrs(),
        false => (text, port).to_socket_addrs(),
    };
    found.map(Iterator::collect).map_err(|why| format!("expected IP, IP:PORT or a name of this machine ({why})"))
}

fn allowed(texts: &[String]) -> Result<Vec<Subnet>, Failure> {
    texts.iter().map(|text| checks::subnet(text).map_err(Failure::Usage)).collect()
}

/// The complete path of the cookie; `None` after `-norpccookiefile` only.
/// Source: Core's `GetAuthCookieFile`, `ArgsManager::GetPathArg`.
fn cookie(given: &Server, files: &mut Files, net_dir: &Path) -> Result<Option<PathBuf>, Failure> {
    const NAME: &str = "rpccookiefile";
    let last = files.conf.on_line().iter().rev().find(|entry| entry.name == NAME);
    // The rewritten command line has 0 for -norpccookiefile, which is also the name of a file.
    let is_negated = last.is_some_and(|entry| entry.setting.value == Value::No);
    let on_line = given.one::<String>(NAME).map(|file| (!is_negated).then(|| PathBuf::from(file)));
    let file = files.value(on_line, NAME, |setting| Ok((setting.value != Value::No).then(|| setting.path())))?;
    Ok(match file {
        Some(None) => None,
        Some(Some(file)) if !file.as_os_str().is_empty() => Some(net_dir.join(file)),
        _ => Some(net_dir.join(COOKIE_FILE)),
    })
}

/// Like [`Files::texts`], without a note that shows the values.
fn secrets(given: &Server, name: &str, files: &Files) -> Result<Vec<String>, Failure> {
    let of_files = files.conf.list(name, files.chain);
    let of_files = of_files.iter().map(|setting| secret_text(setting, name));
    given.many(name).into_iter().map(Ok).chain(of_files).collect()
}

fn secret(given: &Server, name: &str, files: &Files) -> Result<String, Failure> {
    if let Some(text) = given.one(name) {
        return Ok(text);
    }
    let of_files = files.conf.get(name, files.chain).map(|setting| secret_text(&setting, name));
    of_files.transpose().map(Option::unwrap_or_default)
}

/// The text of a secret, which must be text: other bytes would be replaced, and another password would be the right
/// one.
fn secret_text(setting: &Setting, name: &str) -> Result<String, Failure> {
    match setting.is_text() {
        true => Ok(setting.value.text().to_owned()),
        false => Err(Failure::Conf(format!(
            "{}: {name} has bytes that are not UTF-8 text, for which no password could match: save the file as UTF-8, or use rpcauth, which has a hash of the password",
            setting.place
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::Place;
    use crate::settings::Role;
    use crate::test_line;

    fn server(conf: &str, line: &str) -> Result<(Option<settings::Settings>, Vec<String>, String), Failure> {
        let given = test_line::sync(conf, line);
        let mut settings = given.load(Role::Sync)?;
        let server = settings.server(&given.sync.server, false)?;
        Ok((server, settings.warnings.clone(), settings.notes().join("\n")))
    }

    #[test]
    fn server_options_are_merged_as_core_merges_them() {
        assert!(server("", "").unwrap().0.is_none());
        assert!(server("server=1", "--server 0").unwrap().0.is_none());
        let (plain, warnings, _) = server("server=1", "").unwrap();
        let plain = plain.unwrap();
        assert_eq!(plain.bind, settings::loopback(8332));
        assert!(warnings.is_empty() && plain.cookie_file.unwrap().ends_with(".cookie") && !plain.rest);
        let conf = "server=1\nrpcuser=a\nrpcpassword=hidden\nrpcauth=b:c$d\nrest=1\nrpcallowip=10.0.0.0/8\nrpcbind=10.0.0.1:5\n[main]\nrpcbind=127.0.0.1";
        let (made, warnings, said) = server(conf, "--rpcport 7 --rpcthreads 3 -norpccookiefile").unwrap();
        let made = made.unwrap();
        assert_eq!((&*made.user, &*made.password, made.auth.len(), made.threads), ("a", "hidden", 1, 3));
        let both = ["127.0.0.1:7".parse().unwrap(), "10.0.0.1:5".parse().unwrap()];
        assert_eq!(made.bind, both, "of the network's section, then of the part before all sections");
        assert!(made.cookie_file.is_none() && made.rest && warnings.is_empty());
        assert!(!said.contains("hidden") && !said.contains("c$d"), "{said}");
        let (_, warnings, _) = server("server=1", "--rpcbind 0.0.0.0").unwrap();
        assert!(warnings[0].contains("refusing to allow everyone"), "{warnings:?}");
        assert!(server("server=1", "--rpcallowip x").is_err());
        for (text, is_good) in [
            ("127.0.0.1", true),
            ("127.0.0.1:1", true),
            ("[::1]", true),
            ("::1", true),
            ("[::1]:65535", true),
            ("127.0.0.1:notaport", false),
            ("127.0.0.1:-18443", false),
            ("127.0.0.1:0", false),
            ("[::1]:65536", false),
        ] {
            assert_eq!(has_good_port(text), is_good, "{text}");
        }
        let why = server("server=1", "--rpcbind 127.0.0.1:0").unwrap_err().to_string();
        assert_eq!(why, "Invalid port specified in -rpcbind: '127.0.0.1:0'");
        assert!(server("server=1", "--rpccookieperms x").is_err());
    }

    /// Core's rpc_users.py, and its `GetPathArg`: only a negation switches the cookie off.
    #[test]
    fn cookie_is_off_only_after_a_negation() {
        for (row, conf, line, want) in [
            ("by default", "", "", Some(".cookie")),
            ("empty", "rpccookiefile=", "", Some(".cookie")),
            ("a file named 0", "rpccookiefile=0", "", Some("0")),
            ("negated", "norpccookiefile=1", "", None),
            ("a file", "rpccookiefile=a/b", "", Some("a/b")),
            ("empty on the line", "rpccookiefile=a", "-rpccookiefile=", Some(".cookie")),
            ("a file named 0 on the line", "", "--rpccookiefile 0", Some("0")),
            ("negated on the line", "rpccookiefile=a", "-norpccookiefile", None),
            ("negated, then a file", "norpccookiefile=1", "-norpccookiefile -rpccookiefile=0", Some("0")),
        ] {
            let made = server(&format!("server=1\n{conf}"), line).expect(row).0.expect(row);
            let file = made.cookie_file.as_ref();
            assert_eq!(file.is_some(), want.is_some(), "{row}: {file:?}");
            assert!(file.zip(want).is_none_or(|(file, want)| file.ends_with(want)), "{row}: {file:?}");
        }
    }

    #[test]
    fn timeout_of_zero_or_less_is_a_day_as_there_is_none_in_core() {
        const DAY: u64 = 86_400;
        for (row, conf, line, want) in [
            ("by default", "", "", 30),
            ("seconds", "rpcservertimeout=5", "", 5),
            ("none", "rpcservertimeout=0", "", DAY),
            ("below", "rpcservertimeout=-1", "", DAY),
            ("negated", "norpcservertimeout=1", "", DAY),
            ("more than a day", "rpcservertimeout=9999999999", "", DAY),
            ("on the line", "rpcservertimeout=5", "--rpcservertimeout 6", 6),
            ("none on the line", "rpcservertimeout=5", "-rpcservertimeout=0", DAY),
        ] {
            let made = server(&format!("server=1\n{conf}"), line).expect(row).0.expect(row);
            assert_eq!(made.timeout, Duration::from_secs(want), "{row}");
        }
    }

    #[test]
    fn secret_that_is_no_text_is_refused() {
        for (name, value) in [("rpcuser", "\u{e4}"), ("rpcpassword", "\u{e4}"), ("rpcauth", "\u{e4}:1$2")] {
            let place = || Place::Line { file: "bitcoin.conf".into(), line: 3 };
            let latin: Vec<u8> = value.chars().map(|letter| letter as u8).collect();
            assert!(secret_text(&Setting::of_bytes(value.as_bytes(), place()), name).is_ok(), "{name}");
            let why = secret_text(&Setting::of_bytes(&latin, place()), name).unwrap_err().to_string();
            assert!(why.contains(&format!("bitcoin.conf line 3: {name} has bytes")), "{why}");
            assert!(why.contains("save the file as UTF-8"), "{why}");
        }
    }
}
