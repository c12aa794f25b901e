//! Tests of the supported architectures with random weights.

use haft_core::{ChatModel, model::ToolChoice};
use haft_local::LocalModel;
use serde_json::json;

use crate::calls::{check_arguments, object, request};
use crate::family_files::{FAMILIES, write_family};

/// The second reply uses the cached prefix of the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_family_makes_the_same_valid_calls_twice() {
    let folder = tempfile::tempdir().unwrap();
    let schema = object(json!({"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}));
    for family in FAMILIES {
        let path = folder.path().join("family.gguf");
        write_family(&path, family, 2);
        let model = LocalModel::open(&path).await.unwrap();
        let mut request = request(ToolChoice::Required, &schema);
        request.settings.parallel_tool_calls = Some(false);
        let first = model.chat(&request).await.unwrap();
        let second = model.chat(&request).await.unwrap();
        assert_eq!(first.message.tool_calls.len(), 1, "{family}");
        check_arguments(&request, &first, family);
        assert_eq!(first.message.tool_calls[0].arguments, second.message.tool_calls[0].arguments, "{family}");
        assert!(second.usage.cached_input_tokens > 0, "{family}");
    }
}
