//! A relay that does nothing ends the measurement.

use super::*;

#[test]
fn a_stuck_relay_is_an_error_in_both_directions() {
    // Without a relay between them the ends are those of one connection.
    let back = Back::new().expect("a port");
    let pairs = back.open(back.address().expect("bound"), 1).expect("it connects");
    for end in [&pairs[0].near, &pairs[0].far] {
        assert_eq!(end.read_timeout().expect("an option"), Some(WAIT_MAX));
        assert_eq!(end.write_timeout().expect("an option"), Some(WAIT_MAX));
    }
}
