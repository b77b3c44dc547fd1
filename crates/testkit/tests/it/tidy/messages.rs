//! The page of all messages with their remedies, docs/messages.md, made from the code.
//!
//! Each place that makes a message (`Fault::new`, `Fault::refused`, `Message::new`, `Failure::fault` and those whose remedy is
//! that of their kind) is a row. A place without a remedy, and a page that is not what the code says, fail a test;
//! `UPDATE_MESSAGES=1 cargo test -p testkit messages` writes the page.
//! Absent on purpose: notes, which ask for nothing, answers of the server's calls, which are Core's, and texts of the lab.

mod text;

use super::source::{self, Kind, Source};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::Path;
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprMethodCall, ExprStruct, ImplItemFn, ItemConst, ItemFn, ItemMod, Local, Pat};
use text::{Consts, texts};

pub(super) const PAGE: &str = "docs/messages.md";
/// Crates whose messages a user of the command sees.
const CRATES: [&str; 7] = ["audit", "disk", "export", "fetch", "ffwd", "node", "store"];

/// What a message is about, which says how it is shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Section {
    /// A file or directory: `wanted`, `found`, advice.
    File,
    /// A command that cannot be done.
    Command,
    /// The program continues.
    Warning,
    /// The configuration.
    Conf,
    /// The command line.
    Usage,
    /// A data directory that needs a rebuild.
    Rebuild,
    /// The machine, or a mistake of ffwd's.
    Internal,
    /// A block that breaks a rule.
    Verdict,
}

/// Rows of the page, and places without a remedy.
#[derive(Default)]
struct Found {
    rows: BTreeMap<Section, BTreeSet<(String, String)>>,
    bare: Vec<String>,
}

/// The page as the code has it, and the places that name no remedy.
pub(super) fn page(root: &Path) -> (String, Vec<String>) {
    let sources = source::all(root);
    let wanted = |source: &&Source| {
        let is_verdict = source.name.ends_with("consensus/src/verdict.rs");
        source.kind == Kind::Code && (CRATES.contains(&source.crate_name.as_str()) || is_verdict)
    };
    let files: Vec<(&Source, syn::File)> = sources
        .iter()
        .filter(wanted)
        .map(|source| (source, syn::parse_file(&source.text).unwrap_or_else(|why| panic!("{}: {why}", source.name))))
        .collect();
    let mut consts = Consts::default();
    for (_, file) in &files {
        consts.visit_file(file);
    }
    let mut found = Found::default();
    for (source, file) in &files {
        let lets = HashMap::new();
        Finder { source, consts: &consts, found: &mut found, lets, params: Vec::new() }.visit_file(file);
    }
    (written(&found.rows), found.bare)
}

/// Walks one file.
struct Finder<'f> {
    source: &'f Source,
    consts: &'f Consts,
    found: &'f mut Found,
    /// What names stand for, as far as the walk came in this function.
    lets: HashMap<String, Expr>,
    /// Names of the parameters of the functions around.
    params: Vec<String>,
}

impl Finder<'_> {
    fn texts(&self, expr: &Expr) -> Vec<String> {
        texts(expr, &self.lets, self.consts)
    }

    /// Adds a message of these expressions; `advice` says what to do.
    fn add(&mut self, section: Section, what: &[String], advice: &Expr) {
        // A function that hands on what it was given: those who call it say what to do.
        let is_handed_on = match text::name(advice) {
            Some(name) => self.params.contains(&name) || name == "advice",
            None => false,
        };
        let is_made = matches!(text::bare(advice), Expr::MethodCall(call) if call.method == "advice");
        let told = self.texts(advice);
        if is_made || (is_handed_on && told.iter().all(|text| text.starts_with('{'))) {
            return;
        }
        if told.is_empty() || told.iter().any(|text| !says_something(text)) {
            self.found.bare.push(format!("{}: {}: what is to be done? {told:?}", self.source.name, what.join(" / ")));
        }
        let told = told.join("; or: ");
        self.rows(section, what, &told);
    }

    fn rows(&mut self, section: Section, what: &[String], told: &str) {
        let rows = self.found.rows.entry(section).or_default();
        rows.extend(what.iter().map(|what| (what.clone(), told.to_owned())));
    }

    fn within(&mut self, inputs: Vec<String>, walk: impl FnOnce(&mut Self)) {
        let lets = std::mem::take(&mut self.lets);
        let params = std::mem::replace(&mut self.params, inputs);
        walk(self);
        (self.lets, self.params) = (lets, params);
    }
}

/// Two words at least, besides what is filled in.
fn says_something(text: &str) -> bool {
    let outside: String = text.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest)).collect();
    outside.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count() >= 2
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|one| matches!(&one.meta, syn::Meta::List(list) if list.path.is_ident("cfg") && list.tokens.to_string() == "test"))
}

fn inputs(signature: &syn::Signature) -> Vec<String> {
    let name = |input: &syn::FnArg| match input {
        syn::FnArg::Typed(typed) => match &*typed.pat {
            Pat::Ident(ident) => Some(ident.ident.to_string()),
            _ => None,
        },
        syn::FnArg::Receiver(_) => None,
    };
    signature.inputs.iter().filter_map(name).collect()
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        if !is_test(&item.attrs) {
            self.within(inputs(&item.sig), |this| visit::visit_item_fn(this, item));
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a ImplItemFn) {
        if is_test(&item.attrs) {
            return;
        }
        if item.sig.ident == "reject_reason" && self.source.name.ends_with("verdict.rs") {
            let reasons = text::literals(&item.block);
            self.rows(Section::Verdict, &reasons, "");
        }
        self.within(inputs(&item.sig), |this| visit::visit_impl_item_fn(this, item));
    }

    fn visit_item_const(&mut self, item: &'a ItemConst) {
        visit::visit_item_const(self, item);
    }

    fn visit_local(&mut self, local: &'a Local) {
        visit::visit_local(self, local);
        if let Some(init) = &local.init {
            text::bind(&local.pat, &init.expr, &mut self.lets);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        if call.method == "warn"
            && let Some(Expr::Call(made)) = call.args.first().map(text::bare)
            && text::path(&made.func) == "Message::new"
        {
            let what = self.texts(&made.args[0]);
            self.add(Section::Warning, &what, &made.args[1]);
            return;
        }
        if call.method == "advise" && self.source.crate_name == "store" && call.args.len() == 1 {
            let what = ["{path}: wanted to read or write it, found {what the system said}".to_owned()];
            self.add(Section::File, &what, &call.args[0]);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'a ExprCall) {
        let args: Vec<&Expr> = call.args.iter().collect();
        match (text::path(&call.func).as_str(), &args[..]) {
            ("Fault::new", [_, _, wanted, found, advice]) => {
                let (wanted, found) = (self.texts(wanted), self.texts(found));
                let pairs = wanted.iter().flat_map(|wanted| {
                    found.iter().map(move |found| format!("{{path}}: wanted {wanted}, found {found}"))
                });
                let what: Vec<String> = pairs.collect();
                self.add(Section::File, &what, advice);
            }
            ("Fault::refused" | "Failure::fault" | "Message::new", [what, advice])
            | ("Fault::system", [what, advice, _]) => {
                let what = self.texts(what);
                self.add(Section::Command, &what, advice);
            }
            ("Failure::Conf", [what]) => self.rows(Section::Conf, &self.texts(what), ""),
            ("Failure::Usage", [what]) => self.rows(Section::Usage, &self.texts(what), ""),
            ("Fault::Rebuild", [what]) => self.rows(Section::Rebuild, &self.texts(what), ""),
            ("Fault::internal", [what]) => self.rows(Section::Internal, &self.texts(what), ""),
            _ => {}
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_struct(&mut self, made: &'a ExprStruct) {
        let is_conf = made.path.segments.iter().any(|segment| segment.ident == "ConfError");
        for field in made.fields.iter().filter(|_| is_conf) {
            if matches!(&field.member, syn::Member::Named(name) if name == "why") {
                self.rows(Section::Conf, &self.texts(&field.expr), "");
            }
        }
        visit::visit_expr_struct(self, made);
    }
}

/// Heading of a section, how its messages are shown, and the remedy of all of them, where it is one.
fn heading(section: Section) -> (&'static str, &'static str) {
    match section {
        Section::File => (
            "Files and directories",
            "Exit code 1. Where a repair helps too, the message ends with \"If that is impossible, run ffwd repair\".",
        ),
        Section::Command => ("Commands that fail", "Exit code 1; of `coins diff` 2."),
        Section::Warning => ("Warnings", "The program continues."),
        Section::Conf => (
            "Configuration",
            "Exit code 1. The message names the file and the line. What to do: correct or remove the line.",
        ),
        Section::Usage => (
            "Command line",
            "Exit code 2, nothing was done. What to do: `ffwd help COMMAND` lists what the command takes.",
        ),
        Section::Rebuild => (
            "A data directory that needs a rebuild",
            "Exit code 1. What to do: run `ffwd reindex`; if only the coins are damaged, `ffwd reindex --chainstate-only`.",
        ),
        Section::Internal => (
            "Faults of the machine or of ffwd",
            "Exit code 1. No block was marked, and committed data is kept. What to do: start again; if the fault repeats, test the \
             memory of the machine and report it with the log.",
        ),
        Section::Verdict => (
            "Blocks that are refused",
            "The reasons are Core's, and the line names block and height. If other nodes refuse the block too, no action \
             is needed. If bitcoind accepts it, test the memory of the machine, run `ffwd reindex`, and report it.",
        ),
    }
}

fn written(rows: &BTreeMap<Section, BTreeSet<(String, String)>>) -> String {
    let mut page = "# Messages\n\n\
        All messages that ask a user for an action, and what to do.\n\
        This page is made from the code: `UPDATE_MESSAGES=1 cargo test -p testkit messages` writes it, and a test fails if it differs from the code.\n\
        `{..}` stands for a value. `ffwd help exit-codes` explains the exit codes.\n"
        .to_owned();
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ").replace('`', "'");
    for (section, rows) in rows {
        let (title, intro) = heading(*section);
        let has_advice = rows.iter().any(|(_, advice)| !advice.is_empty());
        let head = if has_advice { "| message | what to do |\n|---|---|" } else { "| message |\n|---|" };
        let _ = writeln!(page, "\n## {title}\n\n{intro}\n\n{head}");
        for (what, advice) in rows.iter().filter(|(what, _)| says_something(what) || *section == Section::Verdict) {
            let _ = match has_advice {
                true => writeln!(page, "| `{}` | {} |", cell(what), cell(advice)),
                false => writeln!(page, "| `{}` |", cell(what)),
            };
        }
    }
    page
}

#[test]
fn message_without_a_remedy_is_found() {
    for (row, code, want) in [
        ("a literal", "fn f() { Fault::refused(\"it is so\", \"Do that\") }", ""),
        ("an empty one", "fn f() { Fault::refused(\"it is so\", \"\") }", "what is to be done"),
        ("one word", "fn f() { Message::new(\"it is so\", \"Hm\") }", "what is to be done"),
        (
            "a name",
            "fn f() { let advice = if a { \"Do that\" } else { \"Do this\" }; Fault::refused(why, advice) }",
            "",
        ),
        ("a name without words", "fn f() { let x = g(); Failure::fault(why, x) }", "what is to be done"),
        ("handed on", "fn f(advice: &str) { Fault::refused(why, advice) }", ""),
        ("a const", "const A: &str = \"Do that\"; fn f() { Fault::new(K, p, \"a\", \"b\", A) }", ""),
        ("in a test", "#[cfg(test)] mod tests { fn f() { Fault::refused(\"it is so\", \"\") } }", ""),
    ] {
        let source = Source {
            name: "x.rs".to_owned(),
            crate_name: "node".to_owned(),
            kind: Kind::Code,
            text: code.to_owned(),
            code: String::new(),
        };
        let (file, mut consts, mut found) = (syn::parse_file(code).unwrap(), Consts::default(), Found::default());
        consts.visit_file(&file);
        let lets = HashMap::new();
        Finder { source: &source, consts: &consts, found: &mut found, lets, params: Vec::new() }.visit_file(&file);
        assert_eq!(found.bare.is_empty(), want.is_empty(), "{row}: {:?}", found.bare);
        assert!(found.bare.iter().all(|bare| bare.contains(want)), "{row}: {:?}", found.bare);
    }
}
