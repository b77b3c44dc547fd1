//! Checks whether a directory can be a data directory of the network, before any file is created in it.

use super::mounts;
use crate::fault::Fault;
use crate::options::Options;
use consensus::{Chain, Params};
use store::survey::{self, Known, Seems};
use store::{FaultKind, Layout};

/// Describes a directory that is not a data directory of this network; `None` if it may be one.
///
/// # Errors
///
/// It is missing, a dangling link, or an I/O error.
pub(crate) fn seems(options: &Options, layout: &Layout) -> Result<Option<Seems>, Fault> {
    layout.check(&*options.disk)?;
    let known = Chain::ALL.map(|chain| known(&Params::new(chain)));
    Ok(survey::seems(&*options.disk, layout, &self::known(&options.params), &known)?)
}

fn known(params: &Params) -> Known {
    Known { chain: params.chain.name(), directory: params.chain.net_dir(), magic: params.magic }
}

/// Refuses to start a new chain in a place chosen by mistake: inside another data directory, or where a drive is not
/// mounted.
///
/// # Errors
///
/// The kind of directory, and which one to give instead.
pub(crate) fn check_new(options: &Options, layout: &Layout) -> Result<(), Fault> {
    let disk = &*options.disk;
    if !layout.is_unused(disk)? {
        return Ok(());
    }
    if let Some(fault) = seems(options, layout)?.and_then(|seems| seems.refusal(layout.datadir())) {
        return Err(fault.into());
    }
    let is_empty = disk.list(layout.datadir()).map_err(store::Fault::from)?.is_empty();
    match mounts::unmounted(disk, layout.datadir()).filter(|_| is_empty) {
        None => Ok(()),
        Some(point) => {
            let wanted = format!("the drive of {}, which /etc/fstab names", point.display());
            let advice = format!("Mount it (mount {}), or give another --datadir", point.display());
            let found = "an empty directory: it is not mounted";
            Err(store::Fault::new(FaultKind::Missing, layout.datadir(), wanted, found, advice).into())
        }
    }
}
