//! Trials: their text and their repetition.

use super::*;

#[test]
fn a_seed_gives_the_same_trial_and_the_same_run() {
    let trial = Trial::draw(5);
    assert_eq!(trial, Trial::draw(5));
    assert_ne!(trial, Trial::draw(6));
    assert_eq!(run(&trial), run(&trial));
}

#[test]
fn a_trial_is_read_from_its_text() {
    for seed in 0..200 {
        let trial = Trial::draw(seed);
        trial.check().unwrap();
        assert_eq!(Trial::parse(&trial.text()).as_ref(), Ok(&trial), "{}", trial.text());
    }
}
