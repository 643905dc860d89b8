//! leeway-drivers
