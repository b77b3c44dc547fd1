//! Texts as the code has them: what an expression may say, with names in braces for what is filled in.

use std::collections::HashMap;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ItemConst, ItemFn, Lit, Macro, Pat, Stmt};

/// Alternatives of one text at most: more say less.
const TEXTS_MAX: usize = 8;
/// Steps from name to name.
const DEPTH_MAX: usize = 8;

/// Constants and functions of the workspace by their names.
#[derive(Default)]
pub(super) struct Consts {
    values: HashMap<String, Expr>,
    functions: HashMap<String, Block>,
}

impl<'a> Visit<'a> for Consts {
    fn visit_item_const(&mut self, item: &'a ItemConst) {
        // Several may have one name: those that are texts count.
        if matches!(bare(&item.expr), Expr::Lit(literal) if matches!(literal.lit, Lit::Str(_))) {
            self.values.insert(item.ident.to_string(), (*item.expr).clone());
        }
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        self.functions.insert(item.sig.ident.to_string(), (*item.block).clone());
        visit::visit_item_fn(self, item);
    }
}

/// What an expression may say; a name in braces where that is not known here.
pub(super) fn texts(expr: &Expr, lets: &HashMap<String, Expr>, consts: &Consts) -> Vec<String> {
    let mut found = said(expr, lets, consts, DEPTH_MAX);
    found.truncate(TEXTS_MAX);
    found
}

fn said(expr: &Expr, lets: &HashMap<String, Expr>, consts: &Consts, depth: usize) -> Vec<String> {
    if depth == 0 {
        return vec!["{..}".to_owned()];
    }
    let next = |expr: &Expr| said(expr, lets, consts, depth - 1);
    match bare(expr) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => vec![text.value()],
            _ => vec!["{..}".to_owned()],
        },
        Expr::Macro(made) => formatted(&made.mac).into_iter().collect(),
        Expr::If(either) => {
            let other = either.else_branch.as_ref().map(|(_, other)| next(other));
            last(&either.then_branch).map(next).into_iter().chain(other).flatten().collect()
        }
        Expr::Match(of) => of.arms.iter().flat_map(|arm| next(&arm.body)).collect(),
        Expr::Block(block) => last(&block.block).map(next).unwrap_or_default(),
        Expr::Binary(sum) => {
            let (left, right) = (next(&sum.left), next(&sum.right));
            left.iter().flat_map(|left| right.iter().map(move |right| format!("{left}{right}"))).collect()
        }
        Expr::Path(_) => {
            let name = name(expr).unwrap_or_default();
            match lets.get(&name).or_else(|| consts.values.get(&name)) {
                // What is bound to itself under the same name says no more.
                Some(value) if self::name(value).as_ref() != Some(&name) => {
                    let known = next(value);
                    if known.iter().all(|text| text.starts_with('{')) { vec![format!("{{{name}}}")] } else { known }
                }
                _ => vec![format!("{{{name}}}")],
            }
        }
        Expr::Call(call) => {
            let function = path(&call.func);
            let function = function.rsplit("::").next().unwrap_or_default();
            if let Some(Expr::Closure(closure)) = lets.get(function).map(bare) {
                return next(&closure.body);
            }
            match consts.functions.get(function).and_then(last) {
                Some(tail) => said(tail, &HashMap::new(), consts, depth - 1),
                None => vec![format!("{{{}}}", label(expr))],
            }
        }
        other => vec![format!("{{{}}}", label(other))],
    }
}

/// An expression without what does not change its text.
pub(super) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Reference(inner) => bare(&inner.expr),
        Expr::Paren(inner) => bare(&inner.expr),
        Expr::Group(inner) => bare(&inner.expr),
        Expr::Try(inner) => bare(&inner.expr),
        Expr::MethodCall(call)
            if ["into", "to_owned", "to_string", "clone", "as_str", "as_ref"]
                .iter()
                .any(|method| call.method == *method) =>
        {
            bare(&call.receiver)
        }
        _ => expr,
    }
}

/// The last expression of a block.
fn last(block: &Block) -> Option<&Expr> {
    match block.stmts.last()? {
        Stmt::Expr(expr, _) => Some(expr),
        _ => None,
    }
}

/// The name that an expression is, if it is one.
pub(super) fn name(expr: &Expr) -> Option<String> {
    match bare(expr) {
        Expr::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

/// The last two parts of a path: type and function.
pub(super) fn path(expr: &Expr) -> String {
    let Expr::Path(path) = bare(expr) else { return String::new() };
    let parts: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    parts[parts.len().saturating_sub(2)..].join("::")
}

/// Takes down what names of a pattern stand for.
pub(super) fn bind(pattern: &Pat, value: &Expr, lets: &mut HashMap<String, Expr>) {
    match (pattern, bare(value)) {
        (Pat::Ident(ident), _) => drop(lets.insert(ident.ident.to_string(), value.clone())),
        (Pat::Type(typed), _) => bind(&typed.pat, value, lets),
        (Pat::Tuple(names), Expr::Tuple(values)) => {
            names.elems.iter().zip(&values.elems).for_each(|(name, value)| bind(name, value, lets));
        }
        _ => {}
    }
}

/// A word for what an expression fills in.
fn label(expr: &Expr) -> String {
    match bare(expr) {
        Expr::Path(path) => path.path.segments.last().map_or("..".to_owned(), |last| last.ident.to_string()),
        Expr::Field(field) => match &field.member {
            syn::Member::Named(name) => name.to_string(),
            syn::Member::Unnamed(_) => label(&field.base),
        },
        Expr::MethodCall(call) => match call.method.to_string().as_str() {
            "display" | "name" | "unwrap_or" | "map_or" | "join" | "trim" | "to_u32" | "text" => label(&call.receiver),
            method => method.to_owned(),
        },
        Expr::Call(call) => path(&call.func).rsplit("::").next().unwrap_or("..").to_owned(),
        Expr::Index(index) => label(&index.expr),
        Expr::Unary(unary) => label(&unary.expr),
        Expr::Binary(binary) => label(&binary.left),
        _ => "..".to_owned(),
    }
}

/// The text of `format!` and its like.
fn formatted(made: &Macro) -> Option<String> {
    let kind = made.path.segments.last()?.ident.to_string();
    if !matches!(kind.as_str(), "format" | "concat" | "env") {
        return Some(format!("{{{kind}}}"));
    }
    let args = made.parse_body_with(syn::punctuated::Punctuated::<Expr, syn::Token![,]>::parse_terminated).ok()?;
    let mut args = args.iter();
    let Some(Expr::Lit(first)) = args.next() else { return None };
    let Lit::Str(template) = &first.lit else { return None };
    Some(filled(&template.value(), &mut args.map(label)))
}

/// A template with a name in each pair of braces.
fn filled(template: &str, args: &mut dyn Iterator<Item = String>) -> String {
    let (mut out, mut rest) = (String::new(), template);
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let brace = &rest[at..at + 1];
        rest = &rest[at + 1..];
        if rest.starts_with(brace) {
            out.push_str(brace);
            rest = &rest[1..];
            continue;
        }
        let Some((inside, after)) = rest.split_once('}') else { continue };
        let name = inside.split(':').next().unwrap_or_default();
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        let name = if is_number { args.next().unwrap_or("..".to_owned()) } else { name.to_owned() };
        out.push_str(&format!("{{{name}}}"));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// All texts in a block.
pub(super) fn literals(block: &Block) -> Vec<String> {
    struct All(Vec<String>);
    impl<'a> Visit<'a> for All {
        fn visit_lit_str(&mut self, text: &'a syn::LitStr) {
            self.0.push(text.value());
        }

        fn visit_macro(&mut self, made: &'a Macro) {
            self.0.extend(formatted(made));
        }
    }
    let mut all = All(Vec::new());
    all.visit_block(block);
    all.0
}
