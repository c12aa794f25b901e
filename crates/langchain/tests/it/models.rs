//! Models in both directions.

mod haft_llm;
mod langchain_model;
mod openai_client;
