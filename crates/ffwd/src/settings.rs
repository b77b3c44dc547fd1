//! The options of a job, in order of precedence: command line, settings.json, bitcoin.conf, Core's defaults.
//!
//! Absent on purpose: any action. A wrong option on the command line is a usage error; one in a file is a fault
//! that names the line.

use crate::Failure;
use crate::args::indexes::Flags;
use crate::args::{self, Common, SignatureHintsFile, Writing};
use crate::checks;
use crate::clock;
use crate::conf::OnLine;
use crate::conf::{Answers, Conf, Setting, Value};
use crate::limits;
use crate::locate::{Located, Wanted, default_datadir, locate};
use crate::options::Place;
use crate::options::given::Given;
use crate::options::logging;
use crate::options::values::{self, Activation, Challenge, Dbcache, PAR_MAX, TestOption, filter_type};
use consensus::params::VersionBitsTimes;
use consensus::{Chain, Params};
use kernels::Kernels;
use kernels::cpu::Cpu;
use node::machine_memory::{self, MachineMemory};
use node::options::{Clock, IndexKind, Limits, Options, Prune, SignatureHints, Sizes, real_disk};
use primitives::{BlockHash, Height, human};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use watch::notify::Commands;

/// Options of bitcoind that change the data directory beyond the job, with ffwd's command for it. Rejected in
/// files.
const REFUSED: [(&str, &str); 3] = [
    ("reindex", "run `ffwd reindex` for that"),
    ("reindex-chainstate", "run `ffwd reindex --chainstate-only` for that"),
    ("loadblock", "run `ffwd import FILE` for that"),
];

/// Note about `-prune=1`.
const MANUAL: &str = "prune=1 is Core's manual pruning: block files are removed only by the call pruneblockchain, ffwd's with --server or bitcoind's";

/// All options of a command on a data directory.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Options of the engine.
    pub(crate) options: Options,
    /// `-printtoconsole=0`.
    pub(crate) is_quiet: bool,
    /// Whether allocations are recorded: see `heap`.
    pub(crate) heap: bool,
    /// Categories of debug.log that are on.
    pub(crate) categories: Vec<&'static str>,
    /// Settings that are ignored, or have another meaning here.
    pub(crate) notes: Vec<String>,
    /// Settings that may not have the intended effect.
    pub(crate) warnings: Vec<String>,
    pub(crate) files: Files,
    /// Notification commands.
    pub(crate) commands: Commands,
}

/// The files' settings for one network, and the ones that were used.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) conf: Conf,
    pub(crate) chain: Chain,
    taken: Vec<String>,
}

impl Files {
    /// The command line's value, otherwise the files'.
    pub(crate) fn value<T>(
        &mut self,
        given: Option<T>,
        name: &str,
        read: impl FnOnce(&Setting) -> Result<T, String>,
    ) -> Result<Option<T>, Failure> {
        if given.is_some() {
            return Ok(given);
        }
        let Some(setting) = self.conf.get(name, self.chain) else { return Ok(None) };
        let value = read(&setting)
            .map_err(|why| Failure::Conf(format!("{}: {name}={}: {why}", setting.place, setting.value.text())))?;
        self.took(name, &setting);
        Ok(Some(value))
    }

    /// The value of an option: the command line's, otherwise the files'.
    pub(crate) fn option<T: Clone + Send + Sync + 'static, const PLACE: u8>(
        &mut self,
        given: &Given<PLACE>,
        name: &str,
        read: impl FnOnce(&Setting) -> Result<T, String>,
    ) -> Result<Option<T>, Failure> {
        self.value(given.one(name), name, read)
    }

    /// Whether an option is on, by the command line, otherwise by the files.
    pub(crate) fn flag<const PLACE: u8>(&mut self, given: &Given<PLACE>, name: &str) -> Result<Option<bool>, Failure> {
        self.option(given, name, |setting| Ok(setting.value.truth()))
    }

    /// A port: the command line's, otherwise the files'.
    pub(crate) fn port<const PLACE: u8>(&mut self, given: &Given<PLACE>, name: &str) -> Result<Option<u16>, Failure> {
        self.option(given, name, |setting| {
            let text = setting.value.text();
            let port = text.parse().ok().filter(|&port| port > 0);
            port.ok_or_else(|| format!("Invalid port specified in -{name}: '{text}'"))
        })
    }

    fn took(&mut self, name: &str, setting: &Setting) {
        self.taken.push(format!("{name}={} ({})", setting.value.text(), setting.place));
    }

    /// The indexes that the command line or the files enable.
    pub(crate) fn indexes(&mut self, given: &Flags) -> Result<Vec<IndexKind>, Failure> {
        let mut wanted = Vec::new();
        for kind in IndexKind::ALL {
            let is_wanted = self.option(given, kind.name(), |setting| match (kind, &setting.value) {
                (IndexKind::BlockFilter, Value::Text(text)) => filter_type(text),
                (_, value) => Ok(value.truth()),
            })?;
            if is_wanted == Some(true) {
                wanted.push(kind);
            }
        }
        Ok(wanted)
    }

    /// The values of a repeatable option: the command line's, then the files'.
    pub(crate) fn texts<const PLACE: u8>(&mut self, given: &Given<PLACE>, name: &str) -> Vec<String> {
        given.many(name).into_iter().chain(self.list(name)).collect()
    }

    /// The files' values of a repeatable option.
    pub(crate) fn list(&mut self, name: &str) -> Vec<String> {
        self.settings_of(name).iter().map(|setting| setting.value.text().to_owned()).collect()
    }

    /// The files' values of a repeatable option, as paths.
    pub(crate) fn paths(&mut self, name: &str) -> Vec<PathBuf> {
        self.settings_of(name).iter().map(Setting::path).collect()
    }

    fn settings_of(&mut self, name: &str) -> Vec<Setting> {
        let settings = self.conf.list(name, self.chain);
        settings.iter().for_each(|setting| self.took(name, setting));
        settings
    }
}

/// A number as bitcoind reads it. `conf` warns about text after its digits.
pub(crate) fn number(setting: &Setting) -> i64 {
    setting.value.number()
}

/// Kind of work of a command. It decides which lines of the files are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// It reads a data directory.
    Reads,
    /// It does one job on it.
    Job,
    /// It replaces bitcoind, without peers.
    Serve,
    /// It replaces bitcoind, with peers; before that it reindexes and imports if the files or the command line
    /// request it.
    Sync,
}

/// Merges the command line and the files. `writing` has the options of a command that writes.
///
/// # Errors
///
/// [`Failure`].
pub(crate) fn load(
    common: &Common,
    writing: Option<&Writing>,
    role: Role,
    line: &OnLine,
    stop: Arc<AtomicBool>,
) -> Result<Settings, Failure> {
    let located = locate(&Wanted::from(common), line)?;
    let known = located.warnings.clone();
    load_located(located, common, writing, role, line, stop).map_err(|failure| match failure {
        // A warning about the files may explain the error.
        Failure::Conf(why) => Failure::Conf(with_warnings(why, &known)),
        other => other,
    })
}

fn with_warnings(why: String, warnings: &[String]) -> String {
    std::iter::once(why)
        .chain(warnings.iter().map(|warning| format!("warning: {warning}")))
        .collect::<Vec<_>>()
        .join("\n")
}

fn load_located(
    located: Located,
    common: &Common,
    writing: Option<&Writing>,
    role: Role,
    line: &OnLine,
    stop: Arc<AtomicBool>,
) -> Result<Settings, Failure> {
    let Located { conf, chain, datadir, ignored, mut warnings } = located;
    match ignored {
        Some(why) if role != Role::Reads => return Err(Failure::Conf(why)),
        other => warnings.extend(other),
    }
    if role != Role::Reads {
        warnings.extend(conf.misread(chain));
    }
    if matches!(role, Role::Serve | Role::Sync) {
        warnings.extend(checks::check(&conf, chain, &datadir)?);
        let is_asked = conf.get_of_all("server", chain).is_some_and(|setting| setting.value.truth());
        let answers = if is_asked || role == Role::Serve { Answers::Yes } else { Answers::No };
        warnings.extend(conf.without_use(chain, answers));
        warnings.extend(line.warnings.iter().cloned());
    }
    let mut files = Files { conf, chain, taken: Vec::new() };
    let params = params(common, &mut files)?;
    let mut notes = Vec::new();
    if matches!(role, Role::Job | Role::Serve) {
        refuse(&files.conf, chain)?;
    }
    let console = writing.and_then(|given| given.core.one("printtoconsole"));
    let console = files.value(console, "printtoconsole", |setting| Ok(setting.value.truth()))?;
    let is_quiet = writing.is_some() && console == Some(false);
    let mut options = options(common, writing, &mut files, params, datadir, stop)?;
    options.prune_conflict().map_or(Ok(()), |why| Err(Failure::Conf(why)))?;
    if options.prune == Prune::Manual {
        notes.push(MANUAL.to_owned());
    }
    if writing.is_some() && options.sizes.dbcache_follows {
        notes.push(chosen(&options));
    } else if writing.is_some() {
        let total = MachineMemory::default().total().unwrap_or(u64::MAX);
        warnings.extend(oversized(options.dbcache_bytes as u64, total));
    }
    let Categories { on: categories, warnings: unknown } =
        writing.map_or(Ok(Categories::default()), |given| categories(given, &files))?;
    warnings.extend(unknown);
    options.debug_bench = categories.contains(&"bench");
    let heap = categories.contains(&logging::HEAP);
    Ok(Settings { options, is_quiet, heap, categories, notes, warnings, files, commands: Commands::default() })
}

fn options(
    common: &Common,
    writing: Option<&Writing>,
    files: &mut Files,
    mut params: Params,
    datadir: PathBuf,
    stop: Arc<AtomicBool>,
) -> Result<Options, Failure> {
    let none = Writing::default();
    let given = writing.unwrap_or(&none);
    let blocksdir = files.option(&common.core, "blocksdir", |setting| Ok(setting.path()))?;
    let blocksdir = blocksdir.filter(|dir: &PathBuf| !dir.as_os_str().is_empty());
    // Source: Bitcoin Core b88bffe, init.cpp, `AppInitParameterInteraction`.
    if let Some(dir) = blocksdir.as_ref().filter(|dir| writing.is_some() && !dir.is_dir()) {
        let why = format!("Specified blocks directory \"{}\" does not exist.", dir.display());
        return Err(Failure::fault(why, "Is the drive mounted? To start a new one, make the directory"));
    }
    let dbcache = files.option(&common.core, "dbcache", |setting| {
        let mib = number(setting).try_into().unwrap_or(0);
        Ok(Dbcache::Mib(mib.clamp(values::DBCACHE_MIB_MIN, values::DBCACHE_MIB_MAX)))
    })?;
    let dbcache = dbcache.unwrap_or(Dbcache::Auto);
    let par = files.option(&common.core, "par", |setting| Ok(number(setting).clamp(-PAR_MAX, PAR_MAX)))?;
    let assumevalid = files.option(&common.core, "assumevalid", |setting| assumed_valid(setting.value.text()))?;
    let par = workers(par.unwrap_or(0));
    let mut testing = testing(&common.core, files)?;
    testing.sizes.dbcache_follows = dbcache == Dbcache::Auto;
    params.prune_after_height = testing.prune_after_height.unwrap_or(params.prune_after_height);
    let work = files.option(&common.core, "minimumchainwork", |setting| {
        let text = setting.value.text();
        values::work(if text.is_empty() { "0" } else { text })
    })?;
    let mut stop_at = None;
    let mut prune = Prune::Off;
    let mut blocksxor = None;
    let mut micros = None;
    let mut indexes = Vec::new();
    if writing.is_some() {
        stop_at = files.option(&given.core, "stopatheight", |setting| {
            u32::try_from(number(setting)).map(Height::new).map_err(|_| "expected a height".to_owned())
        })?;
        prune = {
            let given = given.prune.or_else(|| given.core.one("prune"));
            files.value(given, "prune", |setting| values::prune_of(number(setting)))?.unwrap_or_default()
        };
        blocksxor = files.flag(&given.core, "blocksxor")?;
        micros = files.flag(&given.core, "logtimemicros")?;
        indexes = files.indexes(&given.indexes)?;
    }
    Ok(Options {
        kernels: kernels(common, writing)?,
        signature_hints: signature_hints(&given.signature_hints)?,
        assumevalid: assumevalid.unwrap_or(params.default_assume_valid),
        minimum_chain_work: work.unwrap_or(params.minimum_chain_work),
        blocksdir,
        dbcache_bytes: dbcache_bytes(dbcache, par),
        par,
        stop_at_height: stop_at.filter(|&height| height > Height::GENESIS),
        prune,
        blocksxor: blocksxor.unwrap_or(true),
        indexes,
        log_time_micros: micros.unwrap_or(false),
        build: args::BUILD,
        stop,
        sizes: testing.sizes,
        ..Options::new(datadir, params, testing.clock)
    })
}

/// Opens the file of `--signature-hints`.
pub(crate) fn signature_hints(given: &SignatureHintsFile) -> Result<Option<Arc<SignatureHints>>, Failure> {
    let Some(path) = &given.signature_hints else { return Ok(None) };
    let hints = SignatureHints::open(&*real_disk(), path).map_err(node::Fault::from)?;
    Ok(Some(Arc::new(hints)))
}

/// The line at the end of a job with `--signature-hints`: the number of blocks with hints, and what could not be read.
pub(crate) fn hints_used(options: &Options) -> Option<String> {
    let hints = options.signature_hints.as_ref()?;
    let used = human::count(hints.blocks());
    let unread = hints.unread().map_or(String::new(), |why| format!("; others could not be read: {why}"));
    Some(format!("hints about signatures were read for {used} blocks from {}{unread}", hints.path().display()))
}

/// The kernels that `--cpu` and `--without` select.
pub(crate) fn kernels(common: &Common, writing: Option<&Writing>) -> Result<Kernels, Failure> {
    let kernels = Kernels::of(common.cpu.unwrap_or(Cpu::Auto))
        .map_err(|why| Failure::fault(format!("--cpu: {why}"), "Leave --cpu out, or name what this processor has"))?;
    #[cfg(feature = "ablation")]
    let kernels = kernels.without(writing.map_or(&[], |given| &given.without));
    let _ = writing; // Read with that feature only.
    Ok(kernels)
}

/// Parses `-assumevalid` of a file: empty text is 0, and the messages are Core's.
fn assumed_valid(text: &str) -> Result<BlockHash, String> {
    let why =
        |_| format!("Invalid assumevalid block hash specified ({text}), must be up to 64 hex digits (or 0 to disable)");
    values::hash(if text.is_empty() { "0" } else { text }).map_err(why)
}

/// The settings that Core's options for tests change.
struct Tested {
    clock: Clock,
    sizes: Sizes,
    prune_after_height: Option<Height>,
}

/// Block file limits of `-fastprune`, and the height after which regtest is pruned with it.
/// Source: Bitcoin Core b88bffe, node/blockstorage.cpp, `FindNextBlockPos`; kernel/chainparams.cpp.
const FAST_PRUNE_LIMITS: Limits = Limits { file_bytes_max: 0x1_0000, chunk_bytes: 0x4000 };
const FAST_PRUNE_AFTER_HEIGHT: Height = Height::new(100);

fn testing(given: &Given<{ Place::Common as u8 }>, files: &mut Files) -> Result<Tested, Failure> {
    let seconds = |setting: &Setting| u64::try_from(number(setting)).map_err(|_| "expected seconds".to_owned());
    let mock = files.option(given, "mocktime", seconds)?.filter(|&time| time > 0);
    if mock.is_some() && files.chain != Chain::Regtest {
        return Err(Failure::Usage(format!("--mocktime is for regtest: this is {}", files.chain)));
    }
    let mut sizes = Sizes::default();
    if let Some(age) = files.option(given, "maxtipage", seconds)? {
        sizes.tip_age_max_s = age;
    }
    if let Some(every) = files.option(given, "checkblockindex", |setting| {
        // The default value is 1, as in Core.
        let every = if setting.value.text().is_empty() { 1 } else { number(setting) };
        u32::try_from(every).map_err(|_| "expected a number from 0".to_owned())
    })? {
        sizes.check_block_index = every;
    }
    #[cfg(feature = "regtest-tools")]
    if let Some(ratio) = files.option(given, "dbcrashratio", |setting| {
        u32::try_from(number(setting)).map_err(|_| "expected a number from 0".to_owned())
    })? {
        sizes.crash_ratio = ratio;
    }
    let fast = files.flag(given, "fastprune")?.unwrap_or(false);
    if fast {
        sizes.limits = FAST_PRUNE_LIMITS;
    }
    let prune_after_height = (fast && files.chain == Chain::Regtest).then_some(FAST_PRUNE_AFTER_HEIGHT);
    Ok(Tested { clock: clock::clock(mock, files.chain), sizes, prune_after_height })
}

/// Enabled categories of debug.log.
#[derive(Default)]
struct Categories {
    on: Vec<&'static str>,
    /// Warnings about unknown categories.
    warnings: Vec<String>,
}

/// The categories of debug.log that the command line selects, otherwise the files.
///
/// bitcoind exits on an unknown category in a file. Here it is only a warning: a newer release may know the
/// category, and a sync does not depend on it.
fn categories(given: &Writing, files: &Files) -> Result<Categories, Failure> {
    let mut warnings = Vec::new();
    let mut of_files = |name: &str| -> Vec<&'static str> {
        let settings = files.conf.list(name, files.chain);
        let texts: Vec<&str> = settings.iter().map(|setting| setting.value.text()).collect();
        let after = texts.iter().rposition(|text| matches!(*text, "0" | "none")).map_or(0, |last| last + 1);
        let known = settings[after..].iter().filter_map(|setting| {
            let text = setting.value.text();
            let category = logging::category(text);
            if category.is_none() {
                let place = &setting.place;
                warnings.push(format!("Unsupported logging category -{name}={text}. ({place}) It is left out"));
            }
            category
        });
        known.collect()
    };
    for setting in files.conf.list("loglevel", files.chain) {
        logging::level(setting.value.text()).map_err(Failure::Conf)?;
    }
    let debug = given.core.many("debug");
    let debug = if debug.is_empty() { of_files("debug") } else { debug };
    let excluded = given.core.many("debugexclude");
    let excluded = if excluded.is_empty() { of_files("debugexclude") } else { excluded };
    if debug.iter().chain(&excluded).any(|one| *one == logging::REMOVED) {
        // Core's words.
        let removed = logging::REMOVED;
        warnings.push(format!(
            "The logging category `{removed}` is deprecated, does nothing, and will be removed in a future version"
        ));
    }
    Ok(Categories { on: logging::left_of(&debug, &excluded), warnings })
}

fn params(common: &Common, files: &mut Files) -> Result<Params, Failure> {
    let chain = files.chain;
    let mut params = Params::new(chain);
    let usage = |why: consensus::params::ParamsError| Failure::Usage(why.to_string());
    if chain == Chain::Signet || common.core.one::<Challenge>("signetchallenge").is_some() {
        let challenge =
            files.option(&common.core, "signetchallenge", |setting| values::challenge(setting.value.text()))?;
        if let Some(challenge) = challenge {
            params = params.with_signet_challenge(&challenge.0).map_err(usage)?;
        }
    }
    let moved_by_line = common.core.many::<Activation>("testactivationheight");
    for moved in &moved_by_line {
        params = params.with_activation_height(&moved.name, moved.height).map_err(usage)?;
    }
    if common.core.many::<TestOption>("test").contains(&TestOption::Bip94) {
        params = params.with_bip94().map_err(usage)?;
    }
    if chain == Chain::Regtest {
        for text in files.list("testactivationheight") {
            let fault = |why: String| Failure::Conf(format!("testactivationheight={text} in the configuration: {why}"));
            let moved = values::activation(&text).map_err(fault)?;
            if moved_by_line.iter().all(|given| given.name != moved.name) {
                params =
                    params.with_activation_height(&moved.name, moved.height).map_err(|why| fault(why.to_string()))?;
            }
        }
        if files.conf.list("test", chain).iter().any(|setting| setting.value.text() == "bip94") {
            params = params.with_bip94().map_err(usage)?;
        }
    }
    // The command line's come last, and therefore count.
    for text in files.list("vbparams") {
        let fault = |why: String| Failure::Conf(format!("vbparams={text} in the configuration: {why}"));
        let moved = values::version_bits(&text).map_err(fault)?;
        params = params.with_version_bits(&moved).map_err(usage)?;
    }
    for moved in &common.core.many::<VersionBitsTimes>("vbparams") {
        params = params.with_version_bits(moved).map_err(usage)?;
    }
    Ok(params)
}

/// Rejects options of the files that change the data directory beyond this job.
fn refuse(conf: &Conf, chain: Chain) -> Result<(), Failure> {
    for (name, instead) in REFUSED {
        if let Some(setting) = conf
            .get(name, chain)
            .filter(|setting| setting.value.truth() || name == "loadblock" && setting.value.text() != "0")
        {
            let place = &setting.place;
            let text = setting.value.text();
            return Err(Failure::Conf(format!(
                "{place}: {name}={text} changes the data directory beyond this command: remove the line; {instead}"
            )));
        }
    }
    Ok(())
}

impl Settings {
    /// Notes for the user before the work begins, first the settings that came from files.
    pub(crate) fn notes(&self) -> Vec<String> {
        let taken = &self.files.taken;
        let first = (!taken.is_empty()).then(|| format!("settings from files: {}", taken.join(", ")));
        first.into_iter().chain(self.notes.iter().cloned()).collect()
    }
}

/// Number of workers for Core's `-par`: 0 is one for each core, a negative value leaves `-par` cores free.
pub(crate) fn workers(par: i64) -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    match usize::try_from(par) {
        Ok(0) => cores,
        Ok(workers) => workers,
        Err(_) => cores.saturating_sub(usize::try_from(par.unsigned_abs()).unwrap_or(usize::MAX)).max(1),
    }
}

/// Bytes of `--dbcache`: the given value, otherwise computed from free memory and the limit of address space.
pub(crate) fn dbcache_bytes(dbcache: Dbcache, workers: usize) -> usize {
    let bytes = match dbcache {
        Dbcache::Mib(mib) => mib << 20,
        Dbcache::Auto => {
            let left = MachineMemory::default().cache_bytes(0);
            let space = limits::cache_bytes_max(workers).unwrap_or(u64::MAX);
            left.min(space).max(values::DBCACHE_MIB_MIN << 20) >> 20 << 20
        }
    };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// A warning of a cache for which the machine may have too little memory.
/// Source: Bitcoin Core b88bffe, node/caches.h, `ShouldWarnOversizedDbCache`.
fn oversized(dbcache_bytes: u64, total_bytes: u64) -> Option<String> {
    let reserved = 2 << 30;
    let cap = (450 << 20).max(total_bytes.saturating_sub(reserved) / 4 * 3);
    let mib = |bytes: u64| bytes >> 20;
    (dbcache_bytes > cap).then(|| {
        format!(
            "A {} MiB dbcache may be too large for a system memory of only {} MiB.",
            mib(dbcache_bytes),
            mib(total_bytes)
        )
    })
}

/// A line that states the chosen size of the cache, and how it follows from the free memory.
fn chosen(options: &Options) -> String {
    let mib = |bytes: u64| human::count(bytes >> 20);
    let free = MachineMemory::default().left().map_or_else(|| "?".to_owned(), mib);
    let chosen = mib(options.dbcache_bytes as u64);
    let beside = mib(machine_memory::BESIDE_BYTES);
    format!("dbcache: {chosen} MiB (automatic: half of {free} MiB free, less {beside}; set with --dbcache)")
}

impl Settings {
    /// Creates the default data directory, with wallets/ in it, if it is in use and missing.
    /// Source: Bitcoin Core b88bffe, common/init.cpp, `InitConfig`.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn make_default_datadir(&self) -> Result<(), Failure> {
        let dir = &self.options.datadir;
        // A symbolic link to a drive that is not mounted does not count as missing.
        if std::fs::symlink_metadata(dir).is_ok() || default_datadir().ok().as_ref() != Some(dir) {
            return Ok(());
        }
        crate::private_files();
        std::fs::create_dir_all(dir.join("wallets")).map_err(|why| {
            let what = format!("{}: the data directory cannot be made: {why}", dir.display());
            Failure::fault(what, "Make it, or name another one with --datadir")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use primitives::{U256, Work};
    use std::fs;

    /// Settings of `ffwd reindex --datadir DIR LINE` in a data directory with these files.
    fn reindex(files: &[(&str, &str)], line: &str) -> Result<(Settings, String), Failure> {
        let datadir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::create_dir_all(datadir.path().join(name).parent().unwrap()).unwrap();
            fs::write(datadir.path().join(name), text.replace("@DIR@", datadir.path().to_str().unwrap())).unwrap();
        }
        let start = ["ffwd", "reindex", "--datadir", datadir.path().to_str().unwrap()].into_iter();
        let Ok(Cli { command: Command::Reindex(given) }) = Cli::try_parse_from(start.chain(line.split_whitespace()))
        else {
            panic!("{line}")
        };
        let line = OnLine::default();
        let stop = Arc::new(AtomicBool::new(false));
        let settings = load(&given.common, Some(&given.writing), Role::Job, &line, stop)?;
        assert_eq!(settings.options.datadir, datadir.path());
        let said = settings.notes().join("\n").replace(datadir.path().to_str().unwrap(), "DIR");
        Ok((settings, said))
    }

    #[test]
    fn command_line_overrides_files() {
        let conf = (
            "bitcoin.conf",
            "dbcache=100\npar=3\nstopatheight=9\nprune=600\nblocksxor=0\nassumevalid=ff\nminimumchainwork=0x10\ndebug=bench",
        );
        let (from_file, said) = reindex(&[conf], "").unwrap();
        let options = from_file.options;
        let from_file_follows = options.sizes.dbcache_follows;
        assert_eq!((options.dbcache_bytes, options.par, options.stop_at_height), (100 << 20, 3, Some(Height::new(9))));
        assert_eq!(
            (options.prune, options.blocksxor, options.debug_bench),
            (Prune::Target { bytes: 600 << 20 }, false, true)
        );
        assert_eq!(options.assumevalid, values::hash("ff").unwrap());
        assert_eq!(options.minimum_chain_work, Work(U256::from_u64(16)));
        assert!(said.contains("settings from files: dbcache=100 (DIR/bitcoin.conf line 1), par=3"), "{said}");

        let line =
            "--dbcache 200 --par 5 --stopatheight 0 --prune 0 --blocksxor 1 --assumevalid 0 --minimumchainwork 1";
        let (given, said) = reindex(&[conf], line).unwrap();
        let options = given.options;
        assert_eq!((options.dbcache_bytes, options.par, options.stop_at_height), (200 << 20, 5, None));
        assert_eq!((options.prune, options.blocksxor), (Prune::Off, true));
        assert_eq!((options.assumevalid, options.minimum_chain_work), (BlockHash::ZERO, Work(U256::from_u64(1))));
        assert_eq!(said, "", "nothing came from the file");
        assert!(!options.sizes.dbcache_follows);
        // What a configuration says is not chosen again; the command line may want that.
        let (auto, said) = reindex(&[conf], "--dbcache auto").unwrap();
        assert!(auto.options.sizes.dbcache_follows && !from_file_follows, "{said}");
        let mib = auto.options.dbcache_bytes >> 20;
        let mib = human::count(mib as u64);
        assert!(said.contains(&format!("dbcache: {mib} MiB (automatic: half of ")), "{said}");
    }

    #[test]
    fn options_without_settings_are_cores_defaults() {
        let (settings, _) = reindex(&[], "").unwrap();
        let (options, main) = (settings.options, Params::new(Chain::Main));
        assert_eq!(
            (options.assumevalid, options.minimum_chain_work),
            (main.default_assume_valid, main.minimum_chain_work)
        );
        assert_eq!((options.stop_at_height, options.prune, options.blocksxor), (None, Prune::Off, true));
        assert!(options.par >= 1 && options.sizes.dbcache_follows && options.dbcache_bytes >= 4 << 20);
        assert_eq!(options.params, main);
        assert!(!options.debug_bench && options.blocksdir.is_none());
    }

    #[test]
    fn files_set_chain_and_its_parameters() {
        for (row, conf, line, want) in [
            ("none", "", "", Chain::Main),
            ("by the file", "testnet4=1", "", Chain::Testnet4),
            ("by the command line", "chain=testnet4", "--chain signet", Chain::Signet),
            ("by both", "testnet4=1", "--chain testnet4", Chain::Testnet4),
        ] {
            assert_eq!(reindex(&[("bitcoin.conf", conf)], line).unwrap().0.options.params.chain, want, "{row}");
        }
        let conf = (
            "bitcoin.conf",
            "regtest=1\ntest=bip94\n[regtest]\ntestactivationheight=csv@7\ntestactivationheight=dersig@8",
        );
        let (settings, _) = reindex(&[conf], "--testactivationheight csv@9").unwrap();
        let params = settings.options.params;
        assert_eq!(
            (params.csv_height, params.bip66_height, params.enforce_bip94),
            (Height::new(9), Height::new(8), true)
        );
        let (settings, _) = reindex(&[("bitcoin.conf", "signet=1\nsignetchallenge=51")], "").unwrap();
        assert_eq!(settings.options.params.signet_challenge, Some(vec![0x51]));
        let (settings, _) = reindex(&[("bitcoin.conf", "signetchallenge=51")], "").unwrap();
        assert_eq!(settings.options.params, Params::new(Chain::Main), "it is for signet only");
        let files = [
            ("bitcoin.conf", "regtest=1\ndbcache=5"),
            ("regtest/settings.json", "{\"dbcache\": 6}"),
            ("settings.json", "{\"dbcache\": 7}"),
        ];
        let (settings, said) = reindex(&files, "").unwrap();
        assert_eq!(settings.options.dbcache_bytes, 6 << 20);
        assert!(said.contains("dbcache=6 (DIR/regtest/settings.json)"), "{said}");
    }

    #[test]
    fn wrong_settings_are_refused_by_name() {
        for (row, conf, line, usage, want) in [
            (
                "reindex",
                "reindex=1",
                "",
                false,
                "bitcoin.conf line 1: reindex=1 changes the data directory beyond this command: remove the line",
            ),
            ("rebuild", "\nreindex-chainstate=1", "", false, "line 2: reindex-chainstate=1"),
            ("loadblock", "loadblock=a.dat", "", false, "ffwd import FILE"),
            (
                "too little",
                "prune=100",
                "",
                false,
                "line 1: prune=100: Prune configured below the minimum of 550 MiB.  Please use",
            ),
            ("less than nothing", "prune=-1", "", false, "Prune cannot be configured with a negative value."),
            ("an index", "prune=1\ntxindex=1", "", false, "Prune mode is incompatible with -txindex."),
            (
                "a type of filter",
                "blockfilterindex=x",
                "",
                false,
                "line 1: blockfilterindex=x: Unknown -blockfilterindex value x.",
            ),
            ("two networks", "testnet4=1", "--chain signet", false, "line 1: Invalid combination of -regtest, -signet"),
            ("not a height", "stopatheight=-4", "", false, "expected a height"),
            ("not a hash", "assumevalid=tip", "", false, "Invalid assumevalid block hash specified (tip), must be"),
            ("activation", "regtest=1\ntestactivationheight=csv", "", false, "Invalid format (csv) for"),
            ("deployment", "regtest=1\ntestactivationheight=taproot@4", "", false, "Invalid name (taproot@4)"),
            ("challenge elsewhere", "", "--signetchallenge 51", true, "for signet"),
            ("bip94 elsewhere", "", "--test bip94", true, "for regtest"),
            ("activation elsewhere", "", "--chain test --testactivationheight csv@5", true, "for regtest"),
        ] {
            let why = reindex(&[("bitcoin.conf", conf)], line).expect_err(row);
            assert_eq!(matches!(why, Failure::Usage(_)), usage, "{row}: {why}");
            assert!(why.to_string().contains(want), "{row}: {why}");
        }
        let (_, said) = reindex(&[("bitcoin.conf", "reindex=0\ntxindex=1\nserver=1\nrpcuser=x")], "").unwrap();
        assert!(said.contains("txindex=1 (") && !said.contains("rpcuser"), "{said}");
    }

    #[test]
    fn values_are_read_as_bitcoind_reads_them() {
        let conf = (
            "bitcoin.conf",
            "dbcache=100MB\nprune=0x226\npar=3 cores\nblocksxor=false\nassumevalid=\nminimumchainwork=",
        );
        let (settings, _) = reindex(&[conf], "").unwrap();
        let options = &settings.options;
        assert_eq!((options.dbcache_bytes, options.par, options.prune), (100 << 20, 3, Prune::Off));
        assert_eq!((options.assumevalid, options.minimum_chain_work), (BlockHash::ZERO, Work(U256::from_u64(0))));
        assert!(!options.blocksxor);
        for want in ["dbcache=100MB is read as 100", "prune=0x226 is read as 0", "par=3 cores is read as 3"] {
            assert!(settings.warnings.iter().any(|warning| warning.contains(want)), "{want}: {:?}", settings.warnings);
        }
        assert!(settings.warnings.iter().any(|warning| warning.contains("blocksxor=false is read as 0")));
    }

    #[test]
    fn workers_of_par_are_as_in_core() {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for (par, want) in [(0, cores), (7, 7), (-1, cores.saturating_sub(1).max(1)), (-5_000, 1)] {
            assert_eq!(workers(par), want, "{par}");
        }
    }
}
