//! bitcoind's options on the command line: clap's arguments, made of the table.

use super::{CoreOption, OnCommandLine, TABLE};
use clap::error::Error;
use clap::parser::MatchesError;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// The options of one [`super::Place`], as the command line gives them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given<const PLACE: u8>(ArgMatches);

/// The rows of a place.
fn rows(place: u8) -> impl Iterator<Item = (&'static CoreOption, OnCommandLine)> {
    TABLE
        .iter()
        .filter_map(|option| option.line.map(|line| (option, line)))
        .filter(move |(_, line)| line.place as u8 == place)
}

fn arg(option: &CoreOption, line: OnCommandLine) -> Arg {
    let arg = Arg::new(option.name)
        .long(option.name)
        .value_name(line.value)
        .value_parser((line.parser)())
        .help(line.help)
        .action(if line.is_repeatable { ArgAction::Append } else { ArgAction::Set })
        .hide(line.is_hidden)
        .hide_possible_values(line.hides_values)
        .allow_negative_numbers(line.may_be_negative);
    match line.place.heading() {
        Some(heading) => arg.help_heading(heading),
        None => arg,
    }
}

impl<const PLACE: u8> Given<PLACE> {
    /// The value of an option that is given once.
    pub(crate) fn one<T: Clone + Send + Sync + 'static>(&self, name: &str) -> Option<T> {
        check(name, PLACE);
        found(name, self.0.try_get_one::<T>(name)).flatten().cloned()
    }

    /// The values of an option that may be given again.
    pub(crate) fn many<T: Clone + Send + Sync + 'static>(&self, name: &str) -> Vec<T> {
        check(name, PLACE);
        found(name, self.0.try_get_many::<T>(name))
            .flatten()
            .map(|values| values.cloned().collect())
            .unwrap_or_default()
    }
}

/// Panics if no option of this place has the name: a mistake of the caller.
fn check(name: &str, place: u8) {
    assert!(rows(place).any(|(option, _)| option.name == name), "the table has --{name} elsewhere");
}

/// The result of a look-up in clap's matches; `None` if no command line was read.
fn found<T>(name: &str, result: Result<T, MatchesError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(MatchesError::UnknownArgument { .. }) => None,
        Err(why) => panic!("--{name} is asked for as another type than the table reads: {why}"),
    }
}

impl<const PLACE: u8> FromArgMatches for Given<PLACE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Given<PLACE>, Error> {
        Ok(Given(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0 = matches.clone();
        Ok(())
    }
}

impl<const PLACE: u8> Args for Given<PLACE> {
    fn augment_args(command: Command) -> Command {
        rows(PLACE).fold(command, |command, (option, line)| command.arg(arg(option, line)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Given::<PLACE>::augment_args(command)
    }
}
