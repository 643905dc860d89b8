//! leeway-webhook
