//! What the program is told of TLS and logins (COMPAT_SECURITY, ../../README.md), as librdkafka's properties.

use std::collections::HashMap;

/// None where clients connect in the clear.
pub fn settings() -> Vec<(&'static str, String)> {
    let text = std::env::var("COMPAT_SECURITY").unwrap_or("{}".to_string());
    let told: HashMap<String, String> = serde_json::from_str(&text).expect("COMPAT_SECURITY is an object of texts");
    let names = [
        ("security.protocol", "protocol"),
        ("ssl.ca.location", "ca"),
        ("ssl.certificate.location", "certificate"),
        ("ssl.key.location", "key"),
        ("sasl.mechanisms", "mechanism"),
        ("sasl.username", "user"),
        ("sasl.password", "password"),
    ];
    names.into_iter().filter_map(|(property, name)| Some((property, told.get(name)?.clone()))).collect()
}
