//! Prompt caching: runs of fifty steps against simulated caches with the rules of the providers.

mod cache;
mod server;

use std::{fmt::Write as _, sync::Arc};

use haft_core::{ChatModel, Schema, ToolDefinition, ToolName, Toolset, agent::RunLimits, tool::DynamicTool};
use haft_middleware::AgentExt as _;
use haft_react::{ReactAgent, ReactAgentBuilder, run::ContextConfig};
use proptest::prelude::*;
use serde_json::json;

use self::{
    cache::{CacheRules, Hits},
    server::Recorder,
};
use crate::apis::Api;

/// The APIs with breakpoints, and the rules of their caches.
const APIS: [(Api, CacheRules); 3] = [
    (Api::ChatCompletions, CacheRules::OpenAi),
    (Api::Responses, CacheRules::OpenAi),
    (Api::Anthropic, CacheRules::Anthropic),
];

const STEPS: usize = 50;

/// What changes in the course of a run.
#[derive(Clone, Debug)]
struct Scenario {
    /// The number of calls of each step.
    calls: Vec<usize>,
    /// The size of each result, in bytes.
    result_size: usize,
    instructions_size: usize,
    view: View,
    /// The steps at which a hook changes the request.
    changes: Vec<Change>,
    /// `true` if one of the tools is an agent on the same model.
    has_child: bool,
}

#[derive(Clone, Copy, Debug)]
enum View {
    Whole,
    /// Only the latest steps are sent.
    Latest(usize),
    /// Old steps are summarized.
    Summary,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    /// Other instructions from this step on.
    Instructions(u32),
    /// One tool less from this step on.
    Tools(u32),
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let view = prop_oneof![
        3 => Just(View::Whole),
        1 => (5..20_usize).prop_map(View::Latest),
        1 => Just(View::Summary),
    ];
    let change = (any::<bool>(), 5..45_u32).prop_map(|(is_tools, step)| match is_tools {
        true => Change::Tools(step),
        false => Change::Instructions(step),
    });
    let calls = proptest::collection::vec(prop_oneof![4 => 1..4_usize, 1 => 12..30_usize], STEPS);
    (calls, 50..2_000_usize, 200..8_000_usize, view, proptest::collection::vec(change, 0..2), any::<bool>())
        .prop_map(|(calls, result_size, instructions_size, view, changes, has_child)| Scenario {
            calls,
            result_size,
            instructions_size,
            view,
            changes,
            has_child,
        })
}

fn tool(name: &str, result_size: usize) -> DynamicTool {
    let schema = Schema::for_arguments(json!({"properties": {"n": {"type": "integer"}}})).unwrap();
    let definition = ToolDefinition::new(ToolName::new(name).unwrap(), schema)
        .with_description("Looks something up, and returns a text about it.");
    DynamicTool::new(definition, move |_, _| async move { "x".repeat(result_size) })
}

impl Scenario {
    fn builder(&self, model: Arc<dyn ChatModel>, prefix: &str) -> ReactAgentBuilder {
        let tools = ["look", "read", "extra"].map(|name| tool(&format!("{prefix}{name}"), self.result_size));
        let tools = tools.into_iter().fold(Toolset::new(), Toolset::with_tool);
        let instructions = format!("You are {prefix}. {}", "Be exact. ".repeat(self.instructions_size / 10));
        let limits = RunLimits { requests: Some(200), ..RunLimits::default() };
        ReactAgent::builder(model).tools(tools).instructions(instructions).limits(limits)
    }

    fn agent(&self, model: &Arc<dyn ChatModel>) -> ReactAgent {
        let mut builder = self.builder(Arc::clone(model), "");
        if self.has_child {
            let child = self.builder(Arc::clone(model), "child_").build().unwrap();
            let tools = ["look", "read", "extra"].map(|name| tool(name, self.result_size));
            let tools = tools.into_iter().fold(Toolset::new(), Toolset::with_tool);
            builder = builder.tools(tools.with_tool(child.into_tool("ask_child", "Asks the other agent.")));
        }
        let context = match self.view {
            View::Whole => ContextConfig::default(),
            View::Latest(steps) => ContextConfig { latest: Some(steps), ..ContextConfig::default() },
            View::Summary => {
                ContextConfig { tokens: Some(20_000), compaction: true, ..ContextConfig::default() }
            }
        };
        let changes = self.changes.clone();
        builder
            .context(context)
            .prepare(move |mut request, cx| {
                let changes = changes.clone();
                async move {
                    for change in changes {
                        match change {
                            Change::Instructions(step) if cx.step >= step => {
                                request.instructions.push("Now be brief.".to_owned());
                            }
                            Change::Tools(step) if cx.step >= step => request.hide_tool("extra"),
                            _ => {}
                        }
                    }
                    Ok(request)
                }
            })
            .build()
            .unwrap()
    }

    /// Runs the agent against `api` and returns the hits of the simulated cache.
    fn hits(&self, api: Api, rules: CacheRules) -> Hits {
        let recorder = Recorder::new(api, self.calls.clone(), self.has_child);
        let agent = self.agent(&recorder.model());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(agent.run("Look everything up.")).unwrap();
        cache::simulate(&recorder.prompts(), rules)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// At least 95 % of the tokens that could be read from the cache are read from it, whatever
    /// changes during a run.
    #[test]
    fn runs_hit_the_cache(scenario in scenarios()) {
        for (api, rules) in APIS {
            let hits = scenario.hits(api, rules);
            prop_assert!(hits.share() >= 0.95, "{api:?}: {hits:?}");
        }
    }
}

/// The figures of one run, for comparison: most of its input is read from the cache.
#[test]
fn long_run_reads_most_of_its_input_from_the_cache() {
    let scenario = Scenario {
        calls: (0..STEPS).map(|step| if step % 7 == 3 { 25 } else { 2 }).collect(),
        result_size: 500,
        instructions_size: 2_000,
        view: View::Whole,
        changes: Vec::new(),
        has_child: false,
    };
    let mut table = String::new();
    for (api, rules) in APIS {
        let hits = scenario.hits(api, rules);
        writeln!(table, "{api:?}: {:.3} of the possible, {:.2} of all", hits.share(), hits.share_of_all())
            .unwrap();
    }
    expect_test::expect![[r#"
        ChatCompletions: 1.000 of the possible, 0.96 of all
        Responses: 1.000 of the possible, 0.96 of all
        Anthropic: 1.000 of the possible, 0.96 of all
    "#]]
    .assert_eq(&table);
}
