use std::collections::BTreeMap;

use async_trait::async_trait;
use haft_core::{
    ToolSource, Toolset,
    tool::Principal,
    toolset::{ListContext, SourceError, ToolList},
};

use super::{GatewayClient, OTHER_CLIENTS};

/// The tools of a gateway, selected by the principal of a listing.
pub(super) struct ClientTools {
    by_client: BTreeMap<String, Toolset>,
    /// The list of a principal without rules.
    no_tools: ToolList,
}

impl ClientTools {
    pub(super) fn new(all: &Toolset, clients: &BTreeMap<String, GatewayClient>) -> Self {
        let selected = |client: &GatewayClient| {
            let filter = client.tool_filter.clone();
            all.clone().filtered(move |tool| filter.selects(tool.name().as_str()))
        };
        let by_client = clients.iter().map(|(id, client)| (id.clone(), selected(client))).collect();
        Self { by_client, no_tools: ToolList::default() }
    }
}

#[async_trait]
impl ToolSource for ClientTools {
    fn label(&self) -> &'static str {
        "gateway"
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        let principal = cx.state.get::<Principal>();
        let own = principal.and_then(|principal| self.by_client.get(&principal.id));
        match own.or_else(|| self.by_client.get(OTHER_CLIENTS)) {
            Some(tools) => Ok(tools.list(cx).await),
            None => Ok(self.no_tools.clone()),
        }
    }
}
