#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use haft_core::{
    model::{CallIdFormat, HostedToolKind, adapter::ResponseSchemaOptions},
    schema::SchemaTarget,
};
use reqwest::Url;

use super::profile::{is_of_anthropic, schema_target_of};
use crate::format::ReasoningField;

/// The most common JSON field for reasoning.
pub(super) const REASONING_CONTENT_FIELD: &str = "reasoning_content";

/// A provider or server program whose base URL, API key variable and quirks are known.
///
/// A hosted provider is recognized by the host in the base URL. A local server must be named,
/// either with [`provider`](crate::ModelBuilder::provider) or as a prefix of the model name for
/// [`from_env`](crate::ChatCompletions::from_env), as in `ollama/qwen3`.
///
/// # Examples
///
/// ```
/// use haft_openai::Provider;
///
/// let groq: Provider = "groq".parse()?;
/// assert_eq!(groq.base_url(), Some("https://api.groq.com/openai/v1"));
/// assert_eq!(groq.api_key_variable(), Some("GROQ_API_KEY"));
/// # Ok::<(), haft_openai::UnknownProvider>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI.
    OpenAi,
    /// Azure OpenAI. There is no default base URL, because each Azure resource has its own URL.
    Azure,
    /// Google's OpenAI-compatible endpoint for Gemini.
    Gemini,
    /// Mistral.
    Mistral,
    /// OpenRouter, a gateway to many providers.
    OpenRouter,
    /// DeepSeek.
    DeepSeek,
    /// Moonshot, with the Kimi models.
    Moonshot,
    /// Groq.
    Groq,
    /// xAI, with the Grok models.
    Xai,
    /// Together AI.
    Together,
    /// The server of llama.cpp.
    LlamaCpp,
    /// vLLM.
    Vllm,
    /// Ollama.
    Ollama,
    /// LM Studio.
    LmStudio,
}

/// The error returned for an unknown provider name.
#[derive(Debug, thiserror::Error)]
#[error("unknown provider {0:?}: known are {known}", known = Provider::names())]
pub struct UnknownProvider(String);

/// The properties of a known provider: its names, address, key variable and quirks.
struct ProviderPreset {
    provider: Provider,
    name: &'static str,
    /// Alternative names of the provider.
    aliases: &'static [&'static str],
    base_url: Option<&'static str>,
    /// The name of the environment variable for the API key. `None` if the provider requires no
    /// key.
    key_variable: Option<&'static str>,
    /// The domains of the provider's hosts. Subdomains also match.
    domains: &'static [&'static str],
    quirks: Quirks,
}

/// The deviations of a server from OpenAI's API that affect requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quirks {
    /// `true` if the token limit is sent as `max_completion_tokens` instead of `max_tokens`. Some
    /// OpenAI models reject `max_tokens`; most other servers support only `max_tokens`.
    pub(super) uses_max_completion_tokens: bool,
    /// The field of an assistant message in which its reasoning is sent back to the server. Only
    /// sent with messages that contain tool calls.
    pub(super) reasoning: ReasoningField,
    /// The JSON Schema subset that the server supports. Strict mode is not used for Azure, because
    /// Azure's limits are tighter than OpenAI's. Strict mode is also not used for servers that
    /// ignore `strict` or interpret it differently.
    pub(super) schema_target: SchemaTarget,
    /// `true` if the server accepts a user message after a tool result. If not, an assistant
    /// message is inserted between them.
    pub(super) accepts_user_after_tool: bool,
    /// `true` if the server accepts `stream_options`.
    pub(super) accepts_stream_options: bool,
    /// `true` if the server expects the seed in the field `random_seed` instead of `seed`.
    pub(super) sends_seed_as_random_seed: bool,
    /// The format of tool call ids that the server accepts.
    pub(super) call_ids: CallIdFormat,
    /// `true` if only the first message may be a system message, as in the chat templates of Qwen
    /// and other open models.
    pub(super) has_one_system_message: bool,
    /// `true` if a conversation with calls is rejected without `tools`, as by Bedrock and Anthropic
    /// behind a gateway.
    pub(super) needs_tools_for_calls: bool,
    /// `true` if the server accepts a tool name as `tool_choice`. llama.cpp ignores the name, LM
    /// Studio rejects it, and Ollama does not support `tool_choice`. For these servers, only the
    /// named tool is sent, with `tool_choice: "required"`.
    pub(super) accepts_named_tool_choice: bool,
    /// The hosted tools of the server in the Responses API.
    pub(super) hosted_tools: &'static [HostedToolKind],
    /// `true` if the server accepts a response schema.
    pub(super) accepts_json_schema: bool,
    /// `true` if the root of a response schema must be an object without alternatives such as
    /// `anyOf`. OpenAI, Azure, OpenRouter and Groq have this requirement.
    pub(super) needs_object_root: bool,
}

impl Quirks {
    /// Returns the restrictions that the server imposes on response schemas.
    pub(super) fn response_schema_options(&self) -> ResponseSchemaOptions {
        ResponseSchemaOptions { target: self.schema_target, needs_object_root: self.needs_object_root }
    }
}

/// The quirks of a server that follows OpenAI's specification.
const STANDARD_QUIRKS: Quirks = Quirks {
    uses_max_completion_tokens: false,
    reasoning: ReasoningField::Omitted,
    schema_target: SchemaTarget::OpenAi,
    accepts_user_after_tool: true,
    accepts_stream_options: true,
    sends_seed_as_random_seed: false,
    call_ids: CallIdFormat::AtMost(40),
    has_one_system_message: true,
    needs_tools_for_calls: false,
    accepts_named_tool_choice: true,
    hosted_tools: &[],
    accepts_json_schema: true,
    needs_object_root: false,
};

/// The quirks of an unknown server, which can be a gateway in front of Bedrock or Anthropic.
const UNKNOWN_SERVER_QUIRKS: Quirks = Quirks { needs_tools_for_calls: true, ..STANDARD_QUIRKS };

/// The known providers. Their quirks are taken from the providers' API references, and from user
/// reports of rejected requests.
const PRESETS: &[ProviderPreset] = &[
    // Source: platform.openai.com/docs/api-reference/chat/create
    ProviderPreset {
        provider: Provider::OpenAi,
        name: "openai",
        aliases: &[],
        base_url: Some("https://api.openai.com/v1"),
        key_variable: Some("OPENAI_API_KEY"),
        domains: &["openai.com"],
        quirks: Quirks {
            uses_max_completion_tokens: true,
            hosted_tools: &[
                HostedToolKind::WebSearch,
                HostedToolKind::CodeExecution,
                HostedToolKind::FileSearch,
                HostedToolKind::McpServer,
            ],
            schema_target: SchemaTarget::OpenAiStrict,
            needs_object_root: true,
            has_one_system_message: false,
            ..STANDARD_QUIRKS
        },
    },
    // Source: learn.microsoft.com/azure/ai-foundry/openai/reference
    ProviderPreset {
        provider: Provider::Azure,
        name: "azure",
        aliases: &["azure-openai"],
        base_url: None,
        key_variable: Some("AZURE_OPENAI_API_KEY"),
        domains: &["openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com"],
        quirks: Quirks {
            uses_max_completion_tokens: true,
            hosted_tools: &[
                HostedToolKind::CodeExecution,
                HostedToolKind::FileSearch,
                HostedToolKind::McpServer,
            ],
            needs_object_root: true,
            has_one_system_message: false,
            ..STANDARD_QUIRKS
        },
    },
    // Source: ai.google.dev/gemini-api/docs/openai
    ProviderPreset {
        provider: Provider::Gemini,
        name: "gemini",
        aliases: &["google"],
        base_url: Some("https://generativelanguage.googleapis.com/v1beta/openai"),
        key_variable: Some("GEMINI_API_KEY"),
        domains: &["googleapis.com"],
        quirks: Quirks { schema_target: SchemaTarget::Gemini, ..STANDARD_QUIRKS },
    },
    // Sources: docs.mistral.ai/api, and the error messages "Tool call id was … but must be a-z,
    // A-Z, 0-9, with a length of 9" and "Unexpected role 'user' after role 'tool'"
    ProviderPreset {
        provider: Provider::Mistral,
        name: "mistral",
        aliases: &["mistralai"],
        base_url: Some("https://api.mistral.ai/v1"),
        key_variable: Some("MISTRAL_API_KEY"),
        domains: &["mistral.ai"],
        quirks: Quirks {
            accepts_user_after_tool: false,
            accepts_stream_options: false,
            sends_seed_as_random_seed: true,
            call_ids: CallIdFormat::NineAlphanumerics,
            ..STANDARD_QUIRKS
        },
    },
    // Source: openrouter.ai/docs/api-reference
    ProviderPreset {
        provider: Provider::OpenRouter,
        name: "openrouter",
        aliases: &[],
        base_url: Some("https://openrouter.ai/api/v1"),
        key_variable: Some("OPENROUTER_API_KEY"),
        domains: &["openrouter.ai"],
        quirks: Quirks { needs_object_root: true, ..STANDARD_QUIRKS },
    },
    // Source: api-docs.deepseek.com/guides/thinking_mode, "The reasoning_content in the thinking
    // mode must be passed back"
    ProviderPreset {
        provider: Provider::DeepSeek,
        name: "deepseek",
        aliases: &[],
        base_url: Some("https://api.deepseek.com"),
        key_variable: Some("DEEPSEEK_API_KEY"),
        domains: &["deepseek.com"],
        quirks: Quirks {
            reasoning: ReasoningField::Required(REASONING_CONTENT_FIELD),
            accepts_json_schema: false,
            ..STANDARD_QUIRKS
        },
    },
    // Sources: platform.moonshot.ai/docs, and the error message "type should be defined in anyOf
    // items instead of the parent schema"
    ProviderPreset {
        provider: Provider::Moonshot,
        name: "moonshot",
        aliases: &["moonshotai", "kimi"],
        base_url: Some("https://api.moonshot.ai/v1"),
        key_variable: Some("MOONSHOT_API_KEY"),
        domains: &["moonshot.ai", "moonshot.cn"],
        quirks: Quirks {
            reasoning: ReasoningField::Required(REASONING_CONTENT_FIELD),
            schema_target: SchemaTarget::Moonshot,
            ..STANDARD_QUIRKS
        },
    },
    // Source: console.groq.com/docs/openai
    ProviderPreset {
        provider: Provider::Groq,
        name: "groq",
        aliases: &[],
        base_url: Some("https://api.groq.com/openai/v1"),
        key_variable: Some("GROQ_API_KEY"),
        domains: &["groq.com"],
        quirks: Quirks { uses_max_completion_tokens: true, needs_object_root: true, ..STANDARD_QUIRKS },
    },
    // Source: docs.x.ai/docs/api-reference
    ProviderPreset {
        provider: Provider::Xai,
        name: "xai",
        aliases: &["grok"],
        base_url: Some("https://api.x.ai/v1"),
        key_variable: Some("XAI_API_KEY"),
        domains: &["x.ai"],
        quirks: Quirks {
            hosted_tools: &[
                HostedToolKind::WebSearch,
                HostedToolKind::CodeExecution,
                HostedToolKind::McpServer,
            ],
            ..STANDARD_QUIRKS
        },
    },
    // Source: docs.together.ai/docs/openai-api-compatibility
    ProviderPreset {
        provider: Provider::Together,
        name: "together",
        aliases: &["togetherai"],
        base_url: Some("https://api.together.xyz/v1"),
        key_variable: Some("TOGETHER_API_KEY"),
        domains: &["together.xyz", "together.ai"],
        quirks: STANDARD_QUIRKS,
    },
    // Source: github.com/ggml-org/llama.cpp, tools/server/README.md
    ProviderPreset {
        provider: Provider::LlamaCpp,
        name: "llama.cpp",
        aliases: &["llama-server"],
        base_url: Some("http://localhost:8080/v1"),
        key_variable: None,
        domains: &[],
        quirks: Quirks {
            reasoning: ReasoningField::Optional(REASONING_CONTENT_FIELD),
            accepts_named_tool_choice: false,
            ..STANDARD_QUIRKS
        },
    },
    // Sources: docs.vllm.ai/en/latest/serving/openai_compatible_server.html, reasoning_outputs.html
    ProviderPreset {
        provider: Provider::Vllm,
        name: "vllm",
        aliases: &[],
        base_url: Some("http://localhost:8000/v1"),
        key_variable: None,
        domains: &[],
        quirks: Quirks { reasoning: ReasoningField::Optional("reasoning"), ..STANDARD_QUIRKS },
    },
    // Source: docs.ollama.com/api/openai-compatibility, which lists `tool_choice` as unsupported
    ProviderPreset {
        provider: Provider::Ollama,
        name: "ollama",
        aliases: &[],
        base_url: Some("http://localhost:11434/v1"),
        key_variable: None,
        domains: &[],
        quirks: Quirks {
            reasoning: ReasoningField::Optional("reasoning"),
            accepts_named_tool_choice: false,
            ..STANDARD_QUIRKS
        },
    },
    // Sources: lmstudio.ai/docs/app/api/tools, and the error message "Invalid tool_choice type:
    // 'object'"
    ProviderPreset {
        provider: Provider::LmStudio,
        name: "lmstudio",
        aliases: &[],
        base_url: Some("http://localhost:1234/v1"),
        key_variable: None,
        domains: &[],
        quirks: Quirks { accepts_named_tool_choice: false, ..STANDARD_QUIRKS },
    },
];

impl Provider {
    /// Returns all known providers.
    pub fn all() -> impl Iterator<Item = Self> {
        PRESETS.iter().map(|preset| preset.provider)
    }

    /// Returns the name of the provider, such as `groq`. The same name is used as the prefix of a
    /// model name.
    pub fn name(self) -> &'static str {
        self.preset().map_or("", |preset| preset.name)
    }

    /// Returns the base URL of the provider, or the default address of a local server. `None` for
    /// Azure, because each resource has its own URL.
    pub fn base_url(self) -> Option<&'static str> {
        self.preset()?.base_url
    }

    /// Returns the name of the environment variable for the API key. `None` if the provider
    /// requires no key.
    pub fn api_key_variable(self) -> Option<&'static str> {
        self.preset()?.key_variable
    }

    /// Returns the value of the attribute `gen_ai.provider.name`: the name that OpenTelemetry's
    /// semantic conventions define for this provider, or else [`name`](Self::name).
    pub(super) fn telemetry_name(self) -> &'static str {
        match self {
            Self::Azure => "azure.ai.openai",
            Self::Gemini => "gcp.gemini",
            Self::Mistral => "mistral_ai",
            Self::Xai => "x_ai",
            other => other.name(),
        }
    }

    /// Returns the provider whose domain matches the host of `url`. `None` if the host is unknown.
    pub(super) fn of_url(url: &Url) -> Option<Self> {
        let host = url.host_str().unwrap_or_default();
        let is_within = |domain: &&str| {
            host.strip_suffix(*domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let known = PRESETS.iter().find(|preset| preset.domains.iter().any(is_within));
        known.map(|preset| preset.provider)
    }

    pub(super) fn quirks(provider: Option<Self>) -> Quirks {
        provider.and_then(Self::preset).map_or(UNKNOWN_SERVER_QUIRKS, |preset| preset.quirks)
    }

    /// Returns the quirks of a server that answers with the model `model`. A gateway and an unknown
    /// server pass the request on to the provider of the model, which has its own rules for schemas
    /// and call ids. vLLM checks the call ids of Mistral's models as Mistral does.
    pub(super) fn quirks_for_model(provider: Option<Self>, model: &str) -> Quirks {
        let mut quirks = Self::quirks(provider);
        if matches!(provider, None | Some(Self::OpenRouter | Self::Vllm)) {
            quirks.call_ids = CallIdFormat::of_model(model).unwrap_or(quirks.call_ids);
        }
        if provider == Some(Self::OpenRouter) {
            quirks.needs_tools_for_calls = is_of_anthropic(model);
        }
        if matches!(provider, None | Some(Self::OpenRouter)) {
            quirks.schema_target = schema_target_of(model).unwrap_or(quirks.schema_target);
        }
        quirks
    }

    fn preset(self) -> Option<&'static ProviderPreset> {
        PRESETS.iter().find(|preset| preset.provider == self)
    }

    pub(super) fn names() -> String {
        PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ")
    }
}

impl FromStr for Provider {
    type Err = UnknownProvider;

    /// Parses the name or an alias of a provider. Case and punctuation are ignored.
    fn from_str(name: &str) -> Result<Self, UnknownProvider> {
        let is_called = |it: &str| normalized(it).eq(normalized(name));
        let known = PRESETS.iter().find(|it| is_called(it.name) || it.aliases.iter().copied().any(is_called));
        known.map(|preset| preset.provider).ok_or_else(|| UnknownProvider(name.to_owned()))
    }
}

fn normalized(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|it| it.is_alphanumeric()).map(|it| it.to_ascii_lowercase())
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
