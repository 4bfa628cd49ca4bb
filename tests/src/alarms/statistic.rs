//! A statistic over the samples of one period.

/// The statistic of some samples; none where there are none.
pub(super) fn of(samples: &[f64], statistic: &str) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    let count = samples.len() as f64;
    Some(match statistic {
        "Sum" => samples.iter().sum(),
        "Average" => samples.iter().sum::<f64>() / count,
        "Minimum" => samples.iter().copied().fold(f64::INFINITY, f64::min),
        "Maximum" => samples.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "SampleCount" => count,
        _ => percentile(samples, statistic.strip_prefix('p').and_then(|rank| rank.parse().ok()).expect("a statistic")),
    })
}

/// The smallest sample that so many percent of them do not exceed.
fn percentile(samples: &[f64], percent: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[test]
fn each_statistic_is_what_its_name_says() {
    let samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
    for (statistic, value) in [
        ("Sum", 20_100.0),
        ("Average", 100.5),
        ("Minimum", 1.0),
        ("Maximum", 200.0),
        ("SampleCount", 200.0),
        ("p50", 100.0),
        ("p99", 198.0),
        ("p99.5", 199.0),
    ] {
        assert_eq!(of(&samples, statistic), Some(value), "{statistic}");
    }
    assert_eq!(of(&[], "Sum"), None, "no samples are no data, not a sum of 0");
}
