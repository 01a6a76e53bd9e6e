//! Every limit is checked, and what is wrong with it is said by name.

use ::core::time::Duration;

use super::{Config, TcpOptions};

#[test]
fn the_defaults_are_valid() {
    assert!(Config::default().validate().is_ok());
}

#[test]
fn each_value_out_of_range_is_named() {
    let zero = Duration::ZERO;
    let long = Duration::from_secs(25 * 3_600);
    let base = Config::default;
    let cases = [
        ("keep_alive_timeout", Config { keep_alive_timeout: zero, ..base() }),
        ("keep_alive_timeout", Config { keep_alive_timeout: long, ..base() }),
        ("head_timeout", Config { head_timeout: zero, ..base() }),
        ("body_timeout", Config { body_timeout: zero, ..base() }),
        ("send_timeout", Config { send_timeout: long, ..base() }),
        ("slow_span", Config { slow_span: zero, ..base() }),
        ("linger_timeout", Config { linger_timeout: zero, ..base() }),
        ("drain_timeout", Config { drain_timeout: long, ..base() }),
        ("stop_idle_ms", Config { stop_idle_ms: 86_400_001, ..base() }),
        ("proxy_header_timeout", Config { proxy_header_timeout: zero, ..base() }),
        ("handler_timeout", Config { handler_timeout: Some(zero), ..base() }),
        ("connection_age_max", Config { connection_age_max: Some(zero), ..base() }),
        ("body_bytes_per_second_min", Config { body_bytes_per_second_min: Some(0), ..base() }),
        ("output_bytes_max", Config { output_bytes_max: 0, ..base() }),
        ("output_bytes_max", Config { output_bytes_max: 65_537, ..base() }),
        ("body_receive_leases_max", Config { body_receive_leases_max: 0, ..base() }),
        ("body_receive_leases_max", Config { body_receive_leases_max: 9, ..base() }),
        ("read_ahead_requests_max", Config { read_ahead_requests_max: 0, ..base() }),
        ("requests_max", Config { requests_max: Some(0), ..base() }),
        ("connections_max", Config { connections_max: 0, ..base() }),
        ("connections_max", Config { connections_max: 1 << 24, ..base() }),
        ("handlers_in_progress_max", Config { handlers_in_progress_max: Some(0), ..base() }),
        ("connections_per_address_max", Config { connections_per_address_max: Some(0), ..base() }),
        ("keep_alive_idle", Config { tcp: TcpOptions { keep_alive_idle: Some(zero), ..base().tcp }, ..base() }),
        ("user_timeout", Config { tcp: TcpOptions { user_timeout: Some(zero), ..base().tcp }, ..base() }),
    ];
    for (name, config) in cases {
        let wrong = config.validate().expect_err(name);
        assert!(wrong.setting().ends_with(name), "{name}: {wrong}");
        assert!(wrong.to_string().starts_with(&format!("{} must be ", wrong.setting())), "{wrong}");
    }
}
