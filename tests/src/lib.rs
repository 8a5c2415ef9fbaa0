//! Shared pieces of the integration tests.
