//! Functions of every shape, wherever they stand and whatever surrounds them.

use haft_core::{Tool, ToolContext, ToolExt, Toolset};
use serde_json::{Value, json};

async fn told(tool: impl Tool, arguments: Value) -> String {
    tool.invoke_with(arguments, &ToolContext::new(std::sync::Arc::default(), "call-7"))
        .await
        .into_result()
        .model_text()
        .into_owned()
}

/// What a `macro_rules!` macro hands over comes in pieces that it has closed.
mod generated {
    macro_rules! make {
        ($(#[$meta:meta])* $vis:vis $name:ident as $tool:literal, $ty:ident: $arg:ident $argty:ty = $default:expr, $state:ty, $ctx:ty, $doc:expr, $range:expr) => {
            $(#[$meta])*
            #[doc = $doc]
            #[haft_core::tool(name = $tool, type = $ty)]
            $vis fn $name(
                #[doc = $doc]
                #[tool(range = $range)]
                n: i64,
                #[tool(default = $default)] $arg: $argty,
                #[tool(state)] state: $state,
                #[tool(context)] cx: $ctx,
            ) -> String {
                format!("{} {n} {state:?} {}", $arg, cx.call_id())
            }
        };
    }
    make!(
        /** By a macro. */
        pub(super) generated as "gen", GeneratedTool: word String = "none", Option<u8>, &haft_core::ToolContext,
        concat!("Of", " pieces."), 1..=3
    );
}

#[tokio::test]
async fn a_function_may_be_written_by_a_macro() {
    use generated::GeneratedTool;

    let definition = GeneratedTool.definition();
    assert_eq!((definition.name().as_str(), definition.description()), ("gen", "By a macro.\nOf pieces."));
    assert_eq!(
        GeneratedTool.args()[0].1,
        &json!({"type": "integer", "description": "Of pieces.", "minimum": 1, "maximum": 3})
    );
    let cx = ToolContext::default().with_state(Some(4_u8));
    let result = GeneratedTool.invoke_with(json!({"n": 2}), &cx).await.into_result();
    assert_eq!(result.model_text(), "none 2 Some(4) ");
}

mod bare {
    #![no_implicit_prelude]

    #[::haft_core::tool(timeout = ::std::time::Duration::from_secs(1), read_only, deprecated = "old", replaced_by = "z")]
    pub(super) async fn bare(
        a: i64,
        #[tool(default = "x")] b: ::std::string::String,
        #[tool(default, range = 0..5, examples = [1])] c: u8,
        #[tool(length = 1..3)] d: ::std::vec::Vec<u8>,
        #[tool(context)] cx: &::haft_core::ToolContext,
        #[tool(flatten)] rest: ::std::collections::BTreeMap<::std::string::String, i64>,
    ) -> ::core::result::Result<::std::string::String, ::std::string::String> {
        ::core::result::Result::Ok(::std::format!("{a}{b}{c}{d:?}{}{rest:?}", cx.call_id()))
    }

    #[::haft_core::tool(blocking)]
    pub(super) fn block(a: i64) -> i64 {
        a
    }

    pub(super) struct Shared;

    #[::haft_core::tools]
    impl Shared {
        #[tool]
        fn one(&self, a: i64) -> i64 {
            a
        }

        #[tool]
        async fn two(self: ::std::sync::Arc<Self>, #[tool(context)] cx: ::haft_core::ToolContext) -> bool {
            cx.call_id() == ""
        }
    }
}

mod shadowed {
    #![allow(dead_code, non_camel_case_types, unused_macros)]

    struct Box;
    struct Vec;
    struct String;
    struct Option;
    struct Result;
    struct Some;
    struct Ok;
    struct Pin;
    struct Arc;
    struct str;
    struct bool;
    trait Send {}
    trait Future {}
    trait Into {}
    trait Default {}
    trait Clone {}
    trait Sized {}
    mod std {}
    mod core {}
    macro_rules! vec {
        () => {
            compile_error!("mine")
        };
    }
    type Any = i64;

    #[haft_core::tool(requires_scope = "a", idempotent, blocking)]
    pub(super) fn scoped(x: i64) -> i64 {
        x
    }

    #[haft_core::tool]
    pub(super) fn shadow(
        x: i64,
        #[tool(default = 3, range = 1..=4)] y: Any,
        z: ::std::option::Option<i64>,
        #[tool(context)] cx: haft_core::ToolContext,
    ) -> i64 {
        x + y + z.unwrap_or(cx.call_id().len() as i64)
    }

    pub(super) struct Holder;

    #[haft_core::tools]
    impl Holder {
        #[tool]
        async fn hold(&self, x: i64) -> i64 {
            ::std::future::ready(x).await
        }
    }
}

/// No name that the user's module has, or has not, changes what a tool is.
#[tokio::test]
async fn a_tool_needs_no_name_of_its_module() {
    let bare = told(bare::Bare, json!({"a": 1, "d": [1], "zz": 3})).await;
    assert_eq!(bare, r#"1x0[1]call-7{"zz": 3}"#);
    assert_eq!(told(bare::Block, json!({"a": 1})).await, "1");
    assert_eq!(told(shadowed::Shadow, json!({"x": 1})).await, "10");
    assert_eq!(told(shadowed::Scoped, json!({"x": 1})).await, r#"denied: the caller lacks the scope "a""#);
    let tools = Toolset::new().with_tools(bare::Shared).with_tools(shadowed::Holder);
    assert_eq!(tools.call("one", json!({"a": 5})).await.model_text(), "5");
    assert_eq!(tools.call("two", json!({})).await.model_text(), "true");
    assert_eq!(tools.call("hold", json!({"x": 6})).await.model_text(), "6");
}

mod named {
    use haft_core::{
        ToolContext,
        export::schemars::{self, JsonSchema},
        tool,
    };

    #[tool]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn natural(
        args: i64,
        input: i64,
        arguments: i64,
        this: i64,
        shared: i64,
        tool: i64,
        call: i64,
        größe: i64,
        r#type: i64,
        _hidden: i64,
    ) -> i64 {
        args + input + arguments + this + shared + tool + call + größe + r#type + _hidden
    }

    #[derive(serde::Deserialize, JsonSchema)]
    pub(super) struct Order {
        n: i64,
    }

    #[tool(type = OrderTool)]
    pub(super) fn order(order: Order) -> i64 {
        order.n
    }

    /// Types that nobody else sees are a warning of the compiler's, as without the attribute.
    #[expect(private_interfaces, reason = "a user may be careless")]
    #[tool]
    pub(super) fn open(hidden: Hidden) -> Result<String, Private> {
        if hidden.n > 0 { Ok(hidden.n.to_string()) } else { Err(Private) }
    }

    #[derive(serde::Deserialize, JsonSchema)]
    struct Hidden {
        n: i64,
    }

    #[derive(Debug)]
    struct Private;

    impl std::fmt::Display for Private {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("not for everybody")
        }
    }

    impl std::error::Error for Private {}

    #[expect(clippy::needless_lifetimes, reason = "a user may write them")]
    #[tool]
    pub(super) async fn lives<'a>(#[tool(context)] cx: &'a ToolContext, mut n: i64) -> String {
        std::future::ready(()).await;
        n += 1;
        format!("{n}{}", cx.call_id())
    }

    #[tool]
    pub(super) const fn constant(n: [i64; 1 + 1]) -> i64
    where
        i64: Copy,
    {
        n[0] + n[1]
    }

    #[tool]
    pub(super) fn fixed(n: i64) -> Result<std::borrow::Cow<'static, str>, std::borrow::Cow<'static, str>> {
        if n > 0 { Ok("yes".into()) } else { Err("no".into()) }
    }

    #[doc = include_str!("../../../README.md")]
    #[tool]
    pub(super) fn documented(#[doc = include_str!("../../../README.md")] n: i64) -> i64 {
        n
    }

    #[expect(dead_code, reason = "a lint is told of the function and its tool together")]
    #[tool]
    fn never_used(n: i64) -> i64 {
        n
    }

    #[cfg(any())]
    #[tool]
    fn absent(n: Missing) -> Missing {
        n
    }

    pub(super) mod inner {
        #[haft_core::tool]
        pub(in crate::macros::shapes) fn within(n: i64) -> i64 {
            n
        }
    }
}

#[tokio::test]
async fn a_function_of_any_shape_is_a_tool() {
    let names = ["args", "input", "arguments", "this", "shared", "tool", "call", "größe", "type", "_hidden"];
    let ones: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!(1))).collect();
    assert_eq!(told(named::Natural, Value::Object(ones)).await, "10");
    assert_eq!(told(named::OrderTool, json!({"order": {"n": 1}})).await, "1");
    assert_eq!(named::OrderTool.definition().name(), &"order");
    assert_eq!(told(named::Open, json!({"hidden": {"n": 0}})).await, "not for everybody");
    assert_eq!(told(named::Lives, json!({"n": 1})).await, "2call-7");
    assert_eq!(told(named::Constant, json!({"n": [1, 2]})).await, "3");
    assert_eq!(told(named::Fixed, json!({"n": 1})).await, "yes");
    assert_eq!(told(named::Fixed, json!({"n": 0})).await, "no");
    assert_eq!(named::Documented.definition().description(), include_str!("../../../README.md").trim());
    assert_eq!(told(named::inner::Within, json!({"n": 3})).await, "3");
}

struct Generic<T>(T);

#[haft_core::tools]
impl Generic<u8>
where
    u8: Copy,
{
    const STEP: u8 = 2;

    #[tool]
    fn add(&self, #[tool(default = Self::STEP)] n: u8, #[tool(default = Self::STEP + 1)] m: u8) -> u8 {
        self.0 + n + m
    }
}

#[tokio::test]
async fn a_block_may_be_of_a_type_with_arguments() {
    let tools = Toolset::new().with_tools(Generic(1));
    assert_eq!(tools.call("add", json!({})).await.model_text(), "6");
}
