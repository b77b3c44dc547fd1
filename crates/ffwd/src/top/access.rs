//! The server that `ffwd top` reads, and its login if that requires a password.
//!
//! A server requires its RPC password from other machines. The password is only sent after a server requires it.

use crate::Failure;
use crate::args::service::Top;
use crate::conf::OnLine;
use crate::locate::{Located, Wanted, locate};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use consensus::Params;
use std::path::PathBuf;

/// The URL of the events, and the login.
pub(super) struct Access {
    pub(super) url: String,
    login: Login,
}

enum Login {
    /// `user:password`.
    Password(String),
    /// The file with the password; a server writes a new one at each start.
    Cookie(PathBuf),
}

impl Access {
    /// The server of the options, otherwise of bitcoin.conf.
    ///
    /// # Errors
    ///
    /// bitcoin.conf cannot be read; there is no home directory.
    pub(super) fn of(given: &Top) -> Result<Access, Failure> {
        let wanted = Wanted { datadir: given.datadir.clone(), chain: given.chain, ..Wanted::default() };
        let Located { conf, chain, datadir, .. } = locate(&wanted, &OnLine::default())?;
        let text = |given: &Option<String>, name: &str| {
            let of_file = || conf.get(name, chain).map(|setting| setting.value.text().to_owned());
            given.clone().or_else(of_file).unwrap_or_default()
        };
        let port = text(&given.rpcport.map(|port| port.to_string()), "rpcport");
        let port = port.parse().ok().filter(|port| *port != 0).unwrap_or(Params::new(chain).rpc_port);
        let password = text(&given.rpcpassword, "rpcpassword");
        let login = if password.is_empty() {
            let file = text(&given.rpccookiefile, "rpccookiefile");
            let file = if file.is_empty() { ".cookie" } else { &file };
            Login::Cookie(datadir.join(chain.net_dir()).join(file))
        } else {
            Login::Password(format!("{}:{password}", text(&given.rpcuser, "rpcuser")))
        };
        let host = &given.rpcconnect;
        let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.clone() };
        Ok(Access { url: format!("http://{host}:{port}/events"), login })
    }

    /// A server whose URL is known.
    #[cfg(test)]
    pub(super) fn with_password(url: String, login: String) -> Access {
        Access { url, login: Login::Password(login) }
    }

    /// The HTTP header with the password. The error is the reason why it is missing.
    pub(super) fn header(&self) -> Result<String, String> {
        let login = match &self.login {
            Login::Password(login) => login.clone(),
            Login::Cookie(path) => std::fs::read_to_string(path).map_err(|why| {
                format!("it asks for a password: give --rpcuser and --rpcpassword ({}: {why})", path.display())
            })?,
        };
        Ok(format!("Basic {}", STANDARD.encode(login.trim_end())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;
    use std::fs;
    use std::path::Path;

    fn access(dir: &Path, line: &str) -> Access {
        let start = ["ffwd", "top", "--datadir", dir.to_str().unwrap()].into_iter();
        let Ok(Cli { command: Command::Top(given) }) = Cli::try_parse_from(start.chain(line.split_whitespace())) else {
            panic!("{line}")
        };
        Access::of(&given).unwrap()
    }

    #[test]
    fn options_come_before_the_file_and_a_password_before_the_cookie() {
        let dir = tempfile::tempdir().unwrap();
        let encoded = |text: &str| format!("Basic {}", STANDARD.encode(text));
        let plain = access(dir.path(), "");
        assert_eq!(plain.url, "http://127.0.0.1:8332/events");
        assert!(plain.header().unwrap_err().contains("--rpcpassword"));
        fs::create_dir(dir.path().join("regtest")).unwrap();
        fs::write(dir.path().join("regtest/.cookie"), "__cookie__:aa\n").unwrap();
        let cookie = access(dir.path(), "--chain regtest --rpcconnect ::1");
        assert_eq!((&*cookie.url, cookie.header()), ("http://[::1]:18443/events", Ok(encoded("__cookie__:aa"))));
        let conf = "regtest=1\nrpcuser=a\nrpcpassword=b:c\n[regtest]\nrpcport=7\n";
        fs::write(dir.path().join("bitcoin.conf"), conf).unwrap();
        let of_file = access(dir.path(), "");
        assert_eq!((&*of_file.url, of_file.header()), ("http://127.0.0.1:7/events", Ok(encoded("a:b:c"))));
        let given = access(dir.path(), "--rpcport 8 --rpcuser x --rpcpassword y --rpcconnect host");
        assert_eq!((&*given.url, given.header()), ("http://host:8/events", Ok(encoded("x:y"))));
    }
}
