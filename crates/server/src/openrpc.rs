//! The calls as an OpenRPC document, made from their table.
//!
//! Names and shapes are Core's. Absent on purpose: schemas of results. The table does not have them, so each result
//! has the schema that accepts everything.
//!
//! Source: Bitcoin Core b88bffe, rpc/server.cpp, `CRPCTable::buildOpenRPCDoc`, `OpenRPCArgSchema`.

use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Registry};

/// Version of OpenRPC. Source: Core's `buildOpenRPCDoc`.
const OPENRPC: &str = "1.4.1";

/// Which calls and parameters are included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// The calls that the help lists.
    Public,
    /// All calls.
    WithHidden,
}

/// The document. `version` is the output of `--version`.
pub(crate) fn document(registry: &Registry, version: &str, scope: Scope) -> Json {
    let is_listed = |call: &&Call| scope == Scope::WithHidden || call.category != "hidden";
    let methods: Vec<Json> = registry.all().filter(is_listed).map(|call| method(call, scope)).collect();
    let info = Json::object()
        .put("title", "ffwd JSON-RPC")
        .put("version", version)
        .put("description", "Generated from ffwd's table of calls. Names and parameters are Bitcoin Core's.");
    Json::object().put("openrpc", OPENRPC).put("info", info.end()).put("methods", methods).end()
}

fn method(call: &Call, scope: Scope) -> Json {
    let shown = call.args.iter().filter(|arg| scope == Scope::WithHidden || !arg.is_hidden);
    let params: Vec<Json> = shown.map(param).collect();
    Json::object()
        .put("name", call.name)
        .put("description", call.about.trim())
        .put("params", params)
        .put("result", Json::object().put("name", "result").put("schema", Json::object().end()).end())
        .put("x-bitcoin-category", call.category)
        .end()
}

fn param(arg: &Arg) -> Json {
    let aliases: Vec<Json> = arg.names.split('|').skip(1).map(Json::from).collect();
    Json::object()
        .put("name", arg.name())
        .put("required", !arg.is_optional)
        .put("schema", schema(arg))
        .put_some("x-bitcoin-aliases", (!aliases.is_empty()).then_some(aliases))
        .put_some("description", (!arg.about.is_empty()).then_some(arg.about))
        .end()
}

/// The JSON Schema of a parameter. If the call checks the type itself, it accepts everything.
fn schema(arg: &Arg) -> Json {
    let of_type = |name: &'static str| Json::object().put("type", name);
    let one_of = |all: Vec<Json>| Json::object().put("oneOf", all).end();
    match (arg.is_checked, arg.kind) {
        (true, _) => {}
        // For example a hash or a height.
        (false, Kind::Num) => return one_of(vec![of_type("integer").end(), of_type("string").end()]),
        (false, _) => return Json::object().end(),
    }
    match arg.kind {
        Kind::Str => of_type("string").end(),
        Kind::Hex => of_type("string").put("pattern", "^[0-9a-fA-F]+$").end(),
        Kind::Num => of_type("number").end(),
        Kind::Bool => of_type("boolean").end(),
        Kind::Amount => one_of(vec![of_type("number").end(), of_type("string").end()]),
        Kind::Range => {
            let number = of_type("number").end();
            let both = of_type("array").put("items", vec![number.clone(), number.clone()]);
            let both = both.put("additionalItems", false).put("minItems", 2).put("maxItems", 2);
            one_of(vec![number, both.end()])
        }
        Kind::Arr => of_type("array").put("items", Json::object().end()).end(),
        Kind::Obj => of_type("object").end(),
        Kind::NamedParams(inner) => {
            let properties = inner.iter().fold(Json::object(), |fields, arg| fields.put(arg.name(), schema(arg)));
            let needed: Vec<Json> = inner.iter().filter(|arg| !arg.is_optional).map(|arg| arg.name().into()).collect();
            of_type("object")
                .put("properties", properties.end())
                .put("additionalProperties", false)
                .put_some("required", (!needed.is_empty()).then_some(needed))
                .end()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(document: &Json) -> Vec<String> {
        let Some(Json::Arr(methods)) = document.field("methods") else { panic!("a list of methods") };
        let name = |method: &Json| match method.field("name") {
            Some(Json::Str(name)) => name.to_string(),
            other => panic!("a name: {other:?}"),
        };
        methods.iter().map(name).collect()
    }

    #[test]
    fn every_call_of_the_table_is_described() {
        let registry = Registry::new(crate::calls::all());
        let public = names(&document(&registry, "1", Scope::Public));
        let all = names(&document(&registry, "1", Scope::WithHidden));
        let help = registry.help("");
        for name in &public {
            assert!(help.contains(&format!("\n{name}")) || help.starts_with(&**name), "{name} is in the help");
        }
        assert_eq!(all.len(), registry.all().count(), "and the hidden ones where they are asked for");
        assert!(all.len() > public.len() && public.is_sorted(), "{public:?}");
        let text = document(&registry, "1", Scope::WithHidden).pretty();
        assert!(text.contains("\"openrpc\": \"1.4.1\"") && text.contains("\"wait\""), "{text}");
        assert!(!document(&registry, "1", Scope::Public).pretty().contains("\"wait\""), "stop's hidden parameter");
    }

    #[test]
    fn schemas_follow_the_kinds() {
        const INNER: &[Arg] = &[Arg::needed("a|b", Kind::Num, "")];
        for (kind, want) in [
            (Kind::Str, r#"{"type":"string"}"#),
            (Kind::Hex, r#"{"type":"string","pattern":"^[0-9a-fA-F]+$"}"#),
            (Kind::Amount, r#"{"oneOf":[{"type":"number"},{"type":"string"}]}"#),
            (
                Kind::NamedParams(INNER),
                r#"{"type":"object","properties":{"a":{"type":"number"}},"additionalProperties":false,"required":["a"]}"#,
            ),
        ] {
            let arg = Arg::optional("x", kind, "");
            assert_eq!(schema(&arg).text(), want);
            assert_eq!(schema(&arg.unchecked()).text(), "{}");
        }
    }
}
