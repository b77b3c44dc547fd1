//! The whole database: against a map in memory, against another LevelDB, and after every accident.

#[cfg(test)]
mod crash;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod interop;
#[cfg(test)]
mod model;
#[cfg(test)]
mod modes;
#[cfg(test)]
mod support;
