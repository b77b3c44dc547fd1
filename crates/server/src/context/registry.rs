//! The table of calls: name, parameters, help and function of each.
//!
//! Wrong use returns Core's code and text: a wrong number of parameters returns the help, a wrong type "Wrong type
//! passed", an unknown name "Unknown named parameter".
//! Source: Bitcoin Core b88bffe, rpc/util.cpp, `RPCMethod`; rpc/server.cpp, `transformNamedArguments`.
//!
//! Absent on purpose: the functions themselves (`calls`).

use super::Context;
use crate::args::Args;
use crate::error::{Code, RpcError};
use crate::json::Json;
use std::collections::BTreeMap;
use std::time::Instant;

/// Type of a parameter. Source: Core's `RPCArg::Type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Text.
    Str,
    /// Bytes in hexadecimal.
    Hex,
    /// A number.
    Num,
    /// A number or text, read as an amount.
    Amount,
    /// A number or two.
    Range,
    /// True or false.
    Bool,
    /// An object.
    Obj,
    /// An object whose fields may be given by name, like parameters.
    NamedParams(&'static [Arg]),
    /// A list.
    Arr,
}

impl Kind {
    /// Its JSON type; `None` if the call checks the type itself.
    fn json_type(self) -> Option<&'static str> {
        match self {
            Kind::Str | Kind::Hex => Some("string"),
            Kind::Num => Some("number"),
            Kind::Bool => Some("bool"),
            Kind::Obj | Kind::NamedParams(_) => Some("object"),
            Kind::Arr => Some("array"),
            Kind::Amount | Kind::Range => None,
        }
    }
}

/// A parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arg {
    /// Its name; several with `|` between them.
    pub names: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Whether it may be omitted.
    pub is_optional: bool,
    /// Whether its type is checked before the call.
    pub is_checked: bool,
    /// Whether the help does not show it.
    pub is_hidden: bool,
    /// Its form in the first line of the help, if the type does not determine it. Source: Core's
    /// `oneline_description`.
    pub line: Option<&'static str>,
    /// Its description.
    pub about: &'static str,
}

impl Arg {
    /// A required parameter.
    pub const fn needed(names: &'static str, kind: Kind, about: &'static str) -> Arg {
        Arg { names, kind, is_optional: false, is_checked: true, is_hidden: false, line: None, about }
    }

    /// An optional parameter.
    pub const fn optional(names: &'static str, kind: Kind, about: &'static str) -> Arg {
        Arg { is_optional: true, ..Arg::needed(names, kind, about) }
    }

    /// Lets the call itself check the type. Source: Core's `skip_type_check`.
    #[must_use]
    pub const fn unchecked(self) -> Arg {
        Arg { is_checked: false, ..self }
    }

    /// Hides it from the help.
    #[must_use]
    pub const fn hidden(self) -> Arg {
        Arg { is_hidden: true, ..self }
    }

    /// Sets its form in the first line of the help.
    #[must_use]
    pub const fn shown_as(self, line: &'static str) -> Arg {
        Arg { line: Some(line), ..self }
    }

    /// The first of its names.
    pub fn name(&self) -> &'static str {
        self.names.split('|').next().unwrap_or_default()
    }

    /// Why this value has the wrong type.
    fn mismatch(&self, value: &Json) -> Option<String> {
        let wanted = self.kind.json_type().filter(|_| self.is_checked)?;
        let fits = value.type_name() == wanted || self.is_optional && value.is_null();
        (!fits).then(|| RpcError::of_type(value, wanted).message)
    }

    /// Its form in the first line of the help. Source: Core's `RPCArg::ToString`.
    pub fn shown(&self) -> String {
        if let Some(line) = self.line {
            return line.to_owned();
        }
        match self.kind {
            Kind::Str | Kind::Hex => format!("\"{}\"", self.name()),
            Kind::Arr => "[...]".to_owned(),
            Kind::Obj | Kind::NamedParams(_) => "{...}".to_owned(),
            _ => self.name().to_owned(),
        }
    }
}

/// A condition that a call waits for: returns the answer once it is true. Evaluated often: it must be cheap.
pub type Condition = Box<dyn Fn(&Context) -> Result<Option<Json>, RpcError> + Send + Sync>;

/// A call whose answer comes later; it occupies no thread meanwhile.
pub struct Wait {
    /// The condition.
    pub until: Condition,
    /// End of the wait.
    pub deadline: Option<Instant>,
    /// Whether the wait goes on after the program was told to end.
    pub outlasts_stop: bool,
    /// The answer at the end of the wait.
    pub otherwise: Condition,
}

/// How a call runs.
#[derive(Clone, Copy)]
pub enum Run {
    /// On a thread of the pool, which may read files and wait for the job.
    Now(fn(&Context, &Args<'_>) -> Result<Json, RpcError>),
    /// On the thread that polls all connections: fast, and only from memory.
    AtOnce(fn(&Context, &Args<'_>) -> Result<Json, RpcError>),
    /// Immediately, and then it waits.
    Later(fn(&Context, &Args<'_>) -> Result<Wait, RpcError>),
}

/// A call.
#[derive(Clone, Copy)]
pub struct Call {
    /// Core's category: "blockchain", "control", "mining", "network", "rawtransactions", "util", "hidden".
    pub category: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its description in the help, in sentences.
    pub about: &'static str,
    /// Its parameters.
    pub args: &'static [Arg],
    /// Its function.
    pub run: Run,
}

impl Call {
    /// Its parameters by position: the given ones, or an error in Core's words.
    ///
    /// # Errors
    ///
    /// Wrong names, numbers or types.
    pub fn bind(&self, params: Json) -> Result<Vec<Json>, RpcError> {
        let values = match params {
            Json::Obj(fields) => self.by_name(fields)?,
            Json::Arr(values) => values,
            _ => Vec::new(),
        };
        let needed = self.args.iter().rposition(|arg| !arg.is_optional).map_or(0, |last| last + 1);
        if values.len() < needed || values.len() > self.args.len() {
            return Err(RpcError::misc(self.help()));
        }
        let mismatches: Vec<(usize, String)> = self
            .args
            .iter()
            .enumerate()
            .filter_map(|(at, arg)| Some((at, arg.mismatch(values.get(at).unwrap_or(&Json::Null))?)))
            .collect();
        if mismatches.is_empty() {
            return Ok(values);
        }
        let fields = mismatches.into_iter().fold(Json::object(), |fields, (at, why)| {
            fields.put(format!("Position {} ({})", at + 1, self.args[at].names), why)
        });
        Err(RpcError::new(Code::Type, format!("Wrong type passed:\n{}", fields.end().pretty())))
    }

    /// Converts parameters by name to the call's order.
    fn by_name(&self, fields: Vec<(std::borrow::Cow<'static, str>, Json)>) -> Result<Vec<Json>, RpcError> {
        let twice = |name: &str| RpcError::parameter(format!("Parameter {name} specified multiple times"));
        let mut given: BTreeMap<String, Json> = BTreeMap::new();
        for (name, value) in fields {
            if given.insert(name.to_string(), value).is_some() {
                return Err(twice(&name));
            }
        }
        let mut take =
            |names: &str| names.split('|').find_map(|name| given.remove(name).map(|value| (name.to_owned(), value)));
        let mut values = Vec::new();
        let mut hole = 0;
        let mut first_hole = 0;
        let mut first = None;
        for arg in self.args {
            let inner = if let Kind::NamedParams(inner) = arg.kind { inner } else { &[] };
            let mut options = Vec::new();
            for option in inner {
                if let Some((name, value)) = take(option.names) {
                    options.push((std::borrow::Cow::Owned(name), value));
                }
            }
            let found = take(arg.names);
            if options.is_empty() && found.is_none() {
                hole += 1;
                if values.is_empty() {
                    first_hole = hole;
                }
                continue;
            }
            values.extend(std::iter::repeat_n(Json::Null, std::mem::take(&mut hole)));
            first = first.or(Some(arg.names));
            match (found, options.first()) {
                (Some((name, _)), Some((option, _))) => {
                    let why = format!("Parameter {name} conflicts with parameter {option}");
                    return Err(RpcError::parameter(why));
                }
                (Some((_, value)), None) => values.push(value),
                (None, _) => values.push(Json::Obj(options)),
            }
        }
        // As in Core, a value that is not a list is ignored.
        if let Some(Json::Arr(mut positional)) = given.remove("args") {
            if let Some(first) = first.filter(|_| first_hole < positional.len()) {
                let why = format!("Parameter {first} specified twice both as positional and named argument");
                return Err(RpcError::parameter(why));
            }
            positional.extend(values.into_iter().skip(positional.len()));
            values = positional;
        }
        match given.keys().next() {
            Some(name) => Err(RpcError::parameter(format!("Unknown named parameter {name}"))),
            None => Ok(values),
        }
    }

    /// The first line of its help. Source: Core's `RPCMethod::ToString`.
    pub fn usage(&self) -> String {
        let mut line = self.name.to_owned();
        let mut was_optional = false;
        for arg in self.args.iter().take_while(|arg| !arg.is_hidden) {
            line.push(' ');
            match (arg.is_optional, was_optional) {
                (true, false) => line.push_str("( "),
                (false, true) => line.push_str(") "),
                _ => {}
            }
            was_optional = arg.is_optional;
            line.push_str(&arg.shown());
        }
        line + if was_optional { " )" } else { "" }
    }

    /// Its help.
    pub fn help(&self) -> String {
        let mut text = format!("{}\n\n{}\n", self.usage(), self.about.trim());
        let shown: Vec<&Arg> = self.args.iter().take_while(|arg| !arg.is_hidden).collect();
        if !shown.is_empty() {
            text.push_str("\nArguments:\n");
        }
        for (at, arg) in shown.iter().enumerate() {
            let need = if arg.is_optional { "optional" } else { "required" };
            let kind = arg.kind.json_type().unwrap_or("number or text");
            text.push_str(&format!("{}. {}    ({kind}, {need}) {}\n", at + 1, arg.name(), arg.about));
        }
        text
    }
}

/// All calls, by name.
pub struct Registry(BTreeMap<&'static str, Call>);

impl Registry {
    /// The table of these calls.
    pub fn new(calls: impl IntoIterator<Item = Call>) -> Registry {
        Registry(calls.into_iter().map(|call| (call.name, call)).collect())
    }

    /// The call with this name.
    pub fn get(&self, name: &str) -> Option<&Call> {
        self.0.get(name)
    }

    /// Every call, by name.
    pub fn all(&self) -> impl Iterator<Item = &Call> {
        self.0.values()
    }

    /// Each parameter of each call: call, index, name, and whether bitcoin-cli sends it as text.
    /// Source: Core's `RPCMethod::GetArgMap`.
    pub fn conversions(&self) -> Json {
        let mut rows = Vec::new();
        for call in self.all() {
            for (at, arg) in call.args.iter().enumerate() {
                let inner = if let Kind::NamedParams(inner) = arg.kind { inner } else { &[] };
                for arg in std::iter::once(arg).chain(inner) {
                    let is_text = matches!(arg.kind, Kind::Str | Kind::Hex);
                    let row = |name: &str| {
                        Json::Arr(vec![call.name.into(), at.into(), name.to_owned().into(), is_text.into()])
                    };
                    rows.extend(arg.names.split('|').map(row));
                }
            }
        }
        Json::Arr(rows)
    }

    /// The help of one call, or the first lines of all by category. Source: Core's `CRPCTable::help`.
    pub fn help(&self, name: &str) -> String {
        if !name.is_empty() {
            let text = self.get(name).map(Call::help);
            return text.unwrap_or_else(|| format!("help: unknown command: {name}"));
        }
        let mut calls: Vec<&Call> = self.all().filter(|call| call.category != "hidden").collect();
        calls.sort_by_key(|call| (call.category, call.name));
        let mut text = String::new();
        let mut category = "";
        for call in calls {
            if call.category != category {
                let mut letters = call.category.chars();
                let first = letters.next().map(|c| c.to_ascii_uppercase()).into_iter();
                let between = if category.is_empty() { "" } else { "\n" };
                text.push_str(&format!("{between}== {} ==\n", first.chain(letters).collect::<String>()));
                category = call.category;
            }
            text.push_str(&call.usage());
            text.push('\n');
        }
        text.pop();
        text
    }
}
