//! The export of spans and metrics by OTLP over HTTP, configured by the standard environment
//! variables of OpenTelemetry.

use std::{env, time::Duration};

use haft_core::export::async_trait;
use haft_http::{
    client::{self, read_body},
    tls::RootCertificates,
};
use opentelemetry::{Key, trace::TracerProvider as _};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_METRICS_ENDPOINT,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, SpanExporter, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    metrics::{MeterProviderBuilder, SdkMeterProvider},
    trace::SdkTracerProvider,
};
use tokio::{runtime::Handle, task::spawn_blocking, time::timeout};
use tracing::{Level, Subscriber};
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use crate::{error::CliError, terminal};

/// The maximum time of a request to the collector.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum time of the last export.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum length of a response of the collector, in bytes.
const RESPONSE_BYTES: usize = 1 << 20;

/// The exporters of spans and metrics. They run on threads of their own.
pub(crate) struct Telemetry {
    spans: Option<SdkTracerProvider>,
    metrics: MeterProviderBuilder,
}

impl Telemetry {
    /// Creates the exporters for which the environment has an endpoint. `None` if it has no
    /// endpoint. The requests to the collector run on `runtime`.
    pub(crate) fn from_env(runtime: &Handle) -> Result<Option<Self>, CliError> {
        let has_endpoint = |variable: &str| {
            [variable, OTEL_EXPORTER_OTLP_ENDPOINT]
                .iter()
                .any(|variable| env::var_os(variable).is_some_and(|value| !value.is_empty()))
        };
        let exports_spans = has_endpoint(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT);
        let exports_metrics = has_endpoint(OTEL_EXPORTER_OTLP_METRICS_ENDPOINT);
        if !exports_spans && !exports_metrics {
            return Ok(None);
        }
        let client = CollectorClient::new(runtime)?;
        let resource = resource();
        let invalid = |error: ExporterBuildError| CliError::usage(error.to_string());
        let mut telemetry =
            Self { spans: None, metrics: SdkMeterProvider::builder().with_resource(resource.clone()) };
        if exports_spans {
            let exporter = SpanExporter::builder().with_http().with_http_client(client.clone());
            let exporter = exporter.build().map_err(invalid)?;
            let spans = SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter);
            telemetry.spans = Some(spans.build());
        }
        if exports_metrics {
            let exporter = MetricExporter::builder().with_http().with_http_client(client);
            let exporter = exporter.build().map_err(invalid)?;
            telemetry.metrics = telemetry.metrics.with_periodic_exporter(exporter);
        }
        Ok(Some(telemetry))
    }

    /// Returns the layer that exports the spans of haft, at the level `info`. Events are not
    /// exported: they are logs, and can have texts of a provider or of a tool.
    pub(crate) fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let tracer = self.spans.as_ref()?.tracer("haft");
        let layer = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false);
        Some(layer.with_filter(filter_fn(|metadata| {
            metadata.is_span() && *metadata.level() <= Level::INFO && metadata.target().starts_with("haft")
        })))
    }

    /// Returns the meter provider with the exporter of metrics. Its exporter is returned once.
    pub(crate) fn take_metrics(&mut self) -> MeterProviderBuilder {
        std::mem::take(&mut self.metrics)
    }

    /// Exports what is not exported yet, in at most five seconds. A failure is a warning.
    pub(crate) async fn shut_down(self, metrics: &SdkMeterProvider) -> Result<(), CliError> {
        let metrics = metrics.clone();
        let metrics = spawn_blocking(move || metrics.shutdown_with_timeout(SHUTDOWN_TIMEOUT));
        let spans = spawn_blocking(move || match self.spans {
            Some(spans) => spans.shutdown_with_timeout(SHUTDOWN_TIMEOUT),
            None => Ok(()),
        });
        let exported = timeout(SHUTDOWN_TIMEOUT, async { (metrics.await, spans.await) }).await;
        let is_complete = matches!(exported, Ok((Ok(Ok(())), Ok(Ok(())))));
        if !is_complete {
            terminal::write_error("warning: the last spans and metrics could not be exported\n")?;
        }
        Ok(())
    }
}

/// Returns what is known about this process. Its service name is `haft` unless a variable sets it.
fn resource() -> Resource {
    let resource = Resource::builder().build();
    let name = resource.get(&Key::new("service.name")).map(|name| name.to_string());
    if name.is_some_and(|name| !name.starts_with("unknown_service")) {
        return resource;
    }
    Resource::builder().with_service_name("haft").build()
}

/// The HTTP client of the exporters. Their threads have no runtime, so the requests run on the
/// runtime of the program.
#[derive(Clone, Debug)]
struct CollectorClient {
    client: reqwest::Client,
    runtime: Handle,
}

impl CollectorClient {
    fn new(runtime: &Handle) -> Result<Self, CliError> {
        let builder = client::builder(RootCertificates::SystemIfPresent);
        let builder = builder.map_err(|error| CliError::from_error(&error))?.timeout(REQUEST_TIMEOUT);
        let client = builder.build().map_err(|error| CliError::from_error(&error))?;
        Ok(Self { client, runtime: runtime.clone() })
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, request) = (self.client.clone(), request.try_into()?);
        let sent = self.runtime.spawn(async move {
            let mut response = client.execute(request).await?;
            let body = read_body(&mut response, RESPONSE_BYTES).await?;
            let mut received = Response::new(Bytes::from(body));
            *received.status_mut() = response.status();
            *received.headers_mut() = std::mem::take(response.headers_mut());
            Ok(received)
        });
        sent.await?
    }
}
