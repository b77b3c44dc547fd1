//! Finds the configuration file, the network and the data directory, in Core's order.
//!
//! ```text
//! 1  data directory of the command line, else Core's own      4  network: command line, else the file
//! 2  configuration file in it, with what it includes          5  data directory: command line, network's section, rest of the file
//! 3  datadir= before any section: it has to be there          6  settings.json in the network's directory of that
//! ```
//!
//! Source: facts of Bitcoin Core b88bffe: common/init.cpp, `InitConfig`; common/config.cpp, `ReadConfigFiles`; common/args.cpp,
//! `GetDataDir` and `GetDefaultDataDir`.
//! Absent on purpose: opening or making the data directory (`node`).

use crate::Failure;
use crate::args::Common;

use crate::conf::{Conf, ConfFile, OnLine, Setting, is_quoted};
use consensus::Chain;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Name of the configuration file. Source: Core's `BITCOIN_CONF_FILENAME`.
const CONF_FILE: &str = "bitcoin.conf";

/// The command line's values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) datadir: Option<PathBuf>,
    /// `0` reads no file.
    pub(crate) conf: Option<PathBuf>,
    /// `0` reads no file.
    pub(crate) settings: Option<PathBuf>,
    pub(crate) chain: Option<Chain>,
    pub(crate) allowignoredconf: Option<bool>,
    pub(crate) noincludeconf: bool,
}

impl From<&Common> for Wanted {
    fn from(common: &Common) -> Wanted {
        Wanted {
            datadir: common.core.one::<PathBuf>("datadir"),
            conf: common.core.one::<PathBuf>("conf"),
            settings: common.core.one::<PathBuf>("settings"),
            chain: common.core.one::<Chain>("chain"),
            allowignoredconf: common.core.one::<bool>("allowignoredconf"),
            noincludeconf: common.noincludeconf,
        }
    }
}

/// A warning of the file that the window of Bitcoin Knots writes, with `prune`, `proxy` and others.
fn knots_warning(dir: &Path) -> Option<String> {
    let path = dir.join("bitcoin_rw.conf");
    path.metadata().is_ok_and(|known| known.len() > 0).then(|| {
        let path = path.display();
        format!(
            "{path} is a configuration of Bitcoin Knots and is not read: copy the lines that you need to bitcoin.conf"
        )
    })
}

/// The result.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) conf: Conf,
    pub(crate) chain: Chain,
    pub(crate) datadir: PathBuf,
    /// Why bitcoind would not start on it: it contains another configuration file.
    pub(crate) ignored: Option<String>,
    pub(crate) warnings: Vec<String>,
}

/// Finds configuration, network and data directory.
///
/// # Errors
///
/// [`Failure`] where Core would refuse.
pub(crate) fn locate(wanted: &Wanted, line: &OnLine) -> Result<Located, Failure> {
    let first = match (&wanted.datadir, default_datadir()) {
        (Some(datadir), _) => datadir.clone(),
        // A file with a whole path may name the data directory.
        (None, Err(_)) if wanted.conf.as_deref().is_some_and(Path::is_absolute) => PathBuf::from("/"),
        (None, default) => default?,
    };
    let is_off = wanted.conf.as_deref().is_some_and(|path| path.as_os_str() == "0");
    let file = wanted.conf.as_deref().filter(|path| !path.as_os_str().is_empty());
    let from = ConfFile {
        datadir: &first,
        file: file.unwrap_or(Path::new(CONF_FILE)),
        is_named: file.is_some(),
        chain: wanted.chain,
        with_includes: !wanted.noincludeconf,
    };
    let mut conf = if is_off { Conf::without_file(line) } else { Conf::read(from, line)? };
    let before = conf.get_before_chain("datadir").filter(|_| wanted.datadir.is_none());
    before.map_or(Ok(()), |setting| is_there(&setting))?;
    let chain = conf.chain(wanted.chain)?.unwrap_or(Chain::Main);
    let moved = conf.get("datadir", chain).filter(|setting| !setting.value.text().is_empty());
    let mut warnings = Vec::new();
    let datadir = match moved.filter(|_| wanted.datadir.is_none()) {
        None if wanted.datadir.is_none() => default_datadir()?,
        None => first.clone(),
        Some(setting) => {
            is_there(&setting)?;
            warnings.extend(relative_warning(&setting));
            setting.path()
        }
    };
    let used = if is_off { None } else { Some(first.join(from.file)) };
    let is_allowed = wanted.allowignoredconf.or_else(|| {
        let setting = conf.get("allowignoredconf", chain);
        setting.map(|setting| setting.value.truth())
    });
    let mut ignored = None;
    if let Some(why) = used.and_then(|used| other_file(&datadir, &used, wanted, &first)) {
        match is_allowed {
            Some(true) => warnings.push(why),
            _ => ignored = Some(why),
        }
    }
    let net_dir = datadir.join(chain.net_dir());
    conf.read_settings(&net_dir, chain, wanted.settings.as_deref())?;
    warnings.extend(knots_warning(&net_dir).or_else(|| knots_warning(&datadir)));
    warnings.splice(0..0, std::mem::take(&mut conf.warnings));
    Ok(Located { conf, chain, datadir, ignored, warnings })
}

/// Rejects a data directory of a file that does not exist: a drive may not be mounted, and no second chain is
/// started in its place.
fn is_there(setting: &Setting) -> Result<(), Failure> {
    let path = setting.path();
    let text = setting.value.text();
    if text.is_empty() || path.is_dir() {
        return Ok(());
    }
    let hint = match text.starts_with('~') {
        true => "~ is not expanded in a file: write the whole path",
        false if is_quoted(text) => "the quotes are part of the path: remove them",
        false => "mount the drive, make the directory, or change the line",
    };
    Err(Failure::Conf(format!(
        "Error reading configuration file: specified data directory \"{text}\" does not exist. ({}): {hint}",
        setting.place
    )))
}

fn relative_warning(setting: &Setting) -> Option<String> {
    let here = std::env::current_dir().unwrap_or_default();
    setting.path().is_relative().then(|| {
        format!(
            "{}: Relative datadir option '{}' specified, which will be interpreted relative to the current working directory '{}'. Another start from elsewhere does not find the data: write the whole path",
            setting.place,
            setting.value.text(),
            here.display()
        )
    })
}

/// Core's message if the data directory contains a configuration file other than the one in use.
fn other_file(datadir: &Path, used: &Path, wanted: &Wanted, first: &Path) -> Option<String> {
    let other = datadir.join(CONF_FILE);
    let other_is = std::fs::metadata(&other).ok()?;
    let is_same = |used: std::fs::Metadata| (used.dev(), used.ino()) == (other_is.dev(), other_is.ino());
    // If no file is in use, the data directory cannot contain another one.
    if std::fs::metadata(used).map_or(true, is_same) {
        return None;
    }
    let from = match &wanted.conf {
        Some(conf) if !conf.as_os_str().is_empty() => format!("command line argument \"-conf={}\"", conf.display()),
        _ => format!("data directory \"{}\"", first.display()),
    };
    Some(format!(
        "Data directory \"{0}\" contains a \"{CONF_FILE}\" file which is ignored, because a different configuration file \"{1}\" from {from} is being used instead. Possible ways to address this would be to:\n\
         - Delete or rename the \"{CONF_FILE}\" file in data directory \"{0}\".\n\
         - Change datadir= or conf= options to specify one configuration file, not two, and use includeconf= to include any other configuration files.\n\
         - Set allowignoredconf=1 option to treat this condition as a warning, not an error.",
        datadir.display(),
        used.display()
    ))
}

/// Core's default data directory.
pub(crate) fn default_datadir() -> Result<PathBuf, Failure> {
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let home = home
        .ok_or_else(|| Failure::fault("the home directory is not known", "Name the data directory with --datadir"))?;
    let inside = if cfg!(target_os = "macos") { "Library/Application Support/Bitcoin" } else { ".bitcoin" };
    Ok(home.join(inside))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Where a bitcoin.conf leads, of which `@1` and `@2` are directories beside its own.
    fn lead(conf: &str, beside: &str, wanted: Wanted) -> (tempfile::TempDir, Result<Located, Failure>) {
        let top = tempfile::tempdir().unwrap();
        for name in ["home", "1", "2"] {
            fs::create_dir(top.path().join(name)).unwrap();
        }
        let at = top.path().to_str().unwrap().to_owned();
        let text = conf.replace("@", &format!("{at}/"));
        fs::write(top.path().join("home/bitcoin.conf"), text).unwrap();
        if !beside.is_empty() {
            fs::write(top.path().join("1/bitcoin.conf"), beside).unwrap();
        }
        let wanted = Wanted { conf: wanted.conf.or(Some(top.path().join("home/bitcoin.conf"))), ..wanted };
        let located = locate(&wanted, &OnLine::default());
        (top, located)
    }

    #[test]
    fn datadir_is_found_in_cores_order() {
        for (row, conf, want) in [
            ("of the file", "datadir=@1", "1"),
            ("of the network's section", "regtest=1\n[regtest]\ndatadir=@1", "1"),
            ("of the section before the rest", "regtest=1\ndatadir=@2\n[regtest]\ndatadir=@1", "1"),
            ("not of another network's section", "regtest=1\ndatadir=@2\n[main]\ndatadir=@1", "2"),
            ("of mainnet's section", "datadir=@2\n[main]\ndatadir=@1", "1"),
            ("the first", "datadir=@2\ndatadir=@1", "2"),
            ("with a slash behind it", "datadir=@2/", "2"),
        ] {
            let (top, located) = lead(conf, "", Wanted::default());
            let located = located.unwrap();
            assert_eq!(located.datadir, top.path().join(want), "{row}");
            assert_eq!(located.warnings, Vec::<String>::new(), "{row}");
        }
        let given = Wanted { datadir: Some(PathBuf::from("/given")), ..Wanted::default() };
        let (_top, located) = lead("datadir=/nowhere", "", given);
        assert_eq!(located.unwrap().datadir, PathBuf::from("/given"), "the command line's is above every file's");
    }

    #[test]
    fn datadir_that_is_not_there_is_refused() {
        for (row, conf, want) in [
            ("before any section", "datadir=/nowhere/x", "specified data directory \"/nowhere/x\" does not exist."),
            ("in the section", "regtest=1\n[regtest]\ndatadir=/nowhere/x", "\"/nowhere/x\" does not exist."),
            ("also where the section has another", "datadir=/nowhere/x\n[main]\ndatadir=@1", "does not exist."),
            ("quotes", "datadir=\"@1\"", "the quotes are part of the path: remove them"),
            ("a home directory", "datadir=~/.bitcoin", "~ is not expanded in a file: write the whole path"),
        ] {
            let why = lead(conf, "", Wanted::default()).1.expect_err(row).to_string();
            assert!(why.contains(want) && why.contains("bitcoin.conf line"), "{row}: {why}");
        }
        let (_top, located) = lead("datadir=.", "", Wanted::default());
        let warnings = located.unwrap().warnings;
        assert!(warnings[0].contains("Relative datadir option '.' specified"), "{warnings:?}");
    }

    #[test]
    fn a_second_configuration_is_told_as_core_does() {
        let want = "1\" contains a \"bitcoin.conf\" file which is ignored, because a different configuration file";
        let (_top, located) = lead("datadir=@1", "prune=550", Wanted::default());
        let ignored = located.unwrap().ignored.unwrap();
        assert!(ignored.contains(want) && ignored.contains("allowignoredconf=1"), "{ignored}");
        for (row, conf, wanted) in [
            ("in the file", "datadir=@1\nallowignoredconf=1", Wanted::default()),
            ("on the command line", "datadir=@1", Wanted { allowignoredconf: Some(true), ..Wanted::default() }),
        ] {
            let located = lead(conf, "prune=550", wanted).1.unwrap();
            assert!(located.ignored.is_none() && located.warnings[0].contains(want), "{row}: {:?}", located.warnings);
        }
        let (top, located) = lead("datadir=@1", "", Wanted::default());
        assert!(located.unwrap().ignored.is_none());
        fs::hard_link(top.path().join("home/bitcoin.conf"), top.path().join("1/bitcoin.conf")).unwrap();
        let wanted = Wanted { conf: Some(top.path().join("home/bitcoin.conf")), ..Wanted::default() };
        assert!(locate(&wanted, &OnLine::default()).unwrap().ignored.is_none(), "the same file");
        let none = Wanted { conf: Some(PathBuf::from("0")), datadir: Some(top.path().join("1")), ..Wanted::default() };
        let located = locate(&none, &OnLine::default()).unwrap();
        assert!(located.ignored.is_none() && located.conf.lines().is_empty(), "none is read");
    }

    #[test]
    fn settings_json_is_that_of_the_network_and_the_data_directory() {
        let top = tempfile::tempdir().unwrap();
        let home = top.path().join("home");
        let moved = top.path().join("moved");
        for dir in [&home, &moved.join("regtest")] {
            fs::create_dir_all(dir).unwrap();
        }
        fs::write(home.join("bitcoin.conf"), format!("regtest=1\ndatadir={}\npar=1", moved.display())).unwrap();
        fs::write(home.join("settings.json"), r#"{"par": 2}"#).unwrap();
        fs::write(moved.join("settings.json"), r#"{"par": 3}"#).unwrap();
        fs::write(moved.join("regtest/settings.json"), r#"{"par": 4, "dbcahe": 1}"#).unwrap();
        let wanted = Wanted { conf: Some(home.join("bitcoin.conf")), ..Wanted::default() };
        let located = locate(&wanted, &OnLine::default()).unwrap();
        assert_eq!(located.conf.get("par", Chain::Regtest).unwrap().value.text(), "4");
        assert!(located.warnings[0].contains("Ignoring unknown rw_settings value dbcahe"), "{:?}", located.warnings);
    }
}
