//! Authentication: users with salted hashes of their passwords, the cookie, and the calls that each may use.
//!
//! Source: Bitcoin Core b88bffe, httprpc.cpp, `InitRPCAuthentication`, `CheckUserAuthorized`; rpc/request.cpp,
//! `GenerateAuthCookie`.

use crate::not_started::NotStarted;
use crate::settings::{CookiePermissions, Settings};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use primitives::hex;
use ring::hmac;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The user of the cookie.
const COOKIE_USER: &str = "__cookie__";
/// Random bytes of a cookie.
const COOKIE_BYTES: usize = 32;
/// Random bytes of a salt.
const SALT_BYTES: usize = 16;

/// A user: the HMAC-SHA256 of the password under the salt, in hexadecimal, as in `-rpcauth`.
#[derive(Clone, Debug)]
struct User {
    name: String,
    salt: String,
    hash: Vec<u8>,
}

/// All users.
pub(crate) struct Users {
    users: Vec<User>,
    whitelist: BTreeMap<String, Arc<BTreeSet<String>>>,
    /// Whether a user without a whitelist may use no call.
    whitelist_default: bool,
    cookie: Option<Cookie>,
}

/// The cookie file, and the text that was written to it.
struct Cookie {
    path: PathBuf,
    text: String,
}

/// The calls that a user may use.
#[derive(Clone, Debug)]
pub(crate) enum Allowed {
    /// Everything.
    Everything,
    /// These.
    Some(Arc<BTreeSet<String>>),
    /// Nothing.
    Nothing,
}

impl Allowed {
    /// Whether any call is allowed.
    pub(crate) fn any(&self) -> bool {
        !matches!(self, Allowed::Nothing)
    }

    /// Whether every call is allowed.
    pub(crate) fn is_everything(&self) -> bool {
        matches!(self, Allowed::Everything)
    }

    /// Whether this call is allowed.
    pub(crate) fn allows(&self, method: &str) -> bool {
        match self {
            Allowed::Everything => true,
            Allowed::Some(methods) => methods.contains(method),
            Allowed::Nothing => false,
        }
    }
}

impl Users {
    /// The users of the settings; writes the cookie if there is no password. Drop removes it, unless another
    /// program has written its own.
    ///
    /// # Errors
    ///
    /// A malformed line of `-rpcauth`; the cookie cannot be written: as in Core, its directory must exist.
    pub(crate) fn new(settings: &Settings) -> Result<Users, NotStarted> {
        let mut users = Vec::new();
        let mut cookie = None;
        if settings.password.is_empty() {
            if let Some(path) = &settings.cookie_file {
                let password = hex::encode(&random::<COOKIE_BYTES>().map_err(NotStarted::System)?);
                let text = format!("{COOKIE_USER}:{password}");
                write_cookie(path, &text, settings.cookie_permissions).map_err(|why| {
                    let what = format!("{} cannot be written: {why}", path.display());
                    NotStarted::Cookie(io::Error::new(why.kind(), what))
                })?;
                cookie = Some(Cookie { path: path.clone(), text });
                users.push(User::plain(COOKIE_USER, &password).map_err(NotStarted::System)?);
            }
        } else {
            users.push(User::plain(&settings.user, &settings.password).map_err(NotStarted::System)?);
        }
        for line in &settings.auth {
            users.push(User::parse(line).ok_or(NotStarted::Auth)?);
        }
        let mut whitelist: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in &settings.whitelist {
            let (user, methods) = line.split_once(':').map_or((&**line, None), |(user, rest)| (user, Some(rest)));
            let known = whitelist.contains_key(user);
            let list = whitelist.entry(user.to_owned()).or_default();
            if let Some(methods) = methods {
                let new: BTreeSet<String> = methods.split([',', ' ']).map(str::to_owned).collect();
                *list = if known { list.intersection(&new).cloned().collect() } else { new };
            }
        }
        let whitelist_default = settings.whitelist_default.unwrap_or(!settings.whitelist.is_empty());
        let whitelist = whitelist.into_iter().map(|(user, list)| (user, Arc::new(list))).collect();
        Ok(Users { users, whitelist, whitelist_default, cookie })
    }

    /// The calls allowed for the user in this header; `None` for a wrong password.
    pub(crate) fn check(&self, header: &[u8]) -> Option<Allowed> {
        let encoded = header.strip_prefix(b"Basic ")?.trim_ascii();
        let decoded = STANDARD.decode(encoded).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        let name = &decoded[..colon];
        let password = &decoded[colon + 1..];
        // Every user is checked, so that the time reveals nothing about the names.
        let found = self.users.iter().filter(|user| user.is(name, password)).count();
        (found > 0).then(|| self.allowed(&String::from_utf8_lossy(name)))
    }

    fn allowed(&self, name: &str) -> Allowed {
        match self.whitelist.get(name) {
            Some(methods) => Allowed::Some(Arc::clone(methods)),
            None if self.whitelist_default => Allowed::Nothing,
            None => Allowed::Everything,
        }
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        // The data directory is free by now: a program that has started in it meanwhile has its own cookie there.
        if let Some(Cookie { path, text }) = &self.cookie
            && fs::read(path).is_ok_and(|found| found == text.as_bytes())
        {
            let _ = fs::remove_file(path);
        }
    }
}

impl User {
    fn plain(name: &str, password: &str) -> io::Result<User> {
        let salt = hex::encode(&random::<SALT_BYTES>()?);
        let key = hmac::Key::new(hmac::HMAC_SHA256, salt.as_bytes());
        let hash = hmac::sign(&key, password.as_bytes()).as_ref().to_vec();
        Ok(User { name: name.to_owned(), salt, hash })
    }

    /// `USER:SALT$HASH`.
    fn parse(line: &str) -> Option<User> {
        let (name, rest) = line.split_once(':')?;
        let (salt, hash) = rest.split_once('$')?;
        if rest.contains(':') || hash.contains('$') {
            return None;
        }
        // A malformed hash matches no password.
        let hash = hex::decode(hash).filter(|_| !hash.contains(|c: char| c.is_ascii_uppercase())).unwrap_or_default();
        Some(User { name: name.to_owned(), salt: salt.to_owned(), hash })
    }

    fn is(&self, name: &[u8], password: &[u8]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.salt.as_bytes());
        let knows = hmac::verify(&key, password, &self.hash).is_ok();
        knows & (self.name.as_bytes() == name)
    }
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|why| io::Error::other(format!("no random bytes: {why}")))?;
    Ok(bytes)
}

fn write_cookie(path: &Path, text: &str, permissions: CookiePermissions) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    // A temporary file of a stopped program may have other permissions.
    let _ = fs::remove_file(&temporary);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    drop(file);
    fs::set_permissions(&temporary, fs::Permissions::from_mode(permissions.mode()))?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Vec<u8> {
        format!("Basic {}", STANDARD.encode(text)).into_bytes()
    }

    /// At its end bitcoind may have started, which has written its own at the same place.
    #[test]
    fn cookie_of_another_program_stays() {
        let dir = tempfile::tempdir().unwrap();
        let cookie = dir.path().join(".cookie");
        let settings = Settings { cookie_file: Some(cookie.clone()), ..Settings::default() };
        for (row, text, stays) in
            [("its own", None, false), ("another one", Some("__cookie__:1"), true), ("an empty one", Some(""), true)]
        {
            let users = Users::new(&settings).unwrap();
            text.iter().for_each(|text| fs::write(&cookie, text).unwrap());
            drop(users);
            assert_eq!(fs::read_to_string(&cookie).ok().as_deref(), text.filter(|_| stays), "{row}");
        }
    }

    #[test]
    fn users_know_their_passwords_and_what_they_may_call() {
        let dir = tempfile::tempdir().unwrap();
        let cookie = dir.path().join(".cookie");
        // As share/rpcauth makes it of the password "word".
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"5a17");
        let line = format!("alice:5a17${}", hex::encode(hmac::sign(&key, b"word").as_ref()));
        let settings = Settings {
            auth: vec![line],
            whitelist: vec!["alice:getblockcount,uptime".to_owned(), "alice:uptime".to_owned()],
            whitelist_default: Some(false),
            cookie_file: Some(cookie.clone()),
            ..Settings::default()
        };
        let users = Users::new(&settings).unwrap();
        let own = fs::read_to_string(&cookie).unwrap();
        assert_eq!(fs::metadata(&cookie).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(users.check(&header(&own)).unwrap().is_everything());
        let alice = users.check(&header("alice:word")).unwrap();
        assert!(alice.allows("uptime") && !alice.allows("getblockcount") && alice.any());
        for wrong in ["alice:x", "alice", "bob:word", "__cookie__:", ":"] {
            assert!(users.check(&header(wrong)).is_none(), "{wrong}");
        }
        assert!(users.check(b"Bearer x").is_none() && users.check(b"Basic !").is_none());
        drop(users);
        assert!(!cookie.exists());
        let plain = Settings { user: "b".into(), password: "s:c".into(), auth: vec![], ..settings };
        let users = Users::new(&plain).unwrap();
        assert!(users.check(&header("b:s:c")).is_some() && !cookie.exists());
        let wrong = Settings { auth: vec!["alice".into()], ..plain.clone() };
        assert!(matches!(Users::new(&wrong), Err(NotStarted::Auth)));
        let missing = dir.path().join("missing");
        let nowhere = Settings { password: String::new(), cookie_file: Some(missing.join("cookie")), ..plain };
        let why = Users::new(&nowhere).err().map(|why| why.to_string()).unwrap_or_default();
        assert!(why.contains("missing/cookie cannot be written") && !missing.exists(), "{why}");
    }
}
