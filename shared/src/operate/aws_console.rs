//! Addresses of AWS's console in a browser.

use crate::base::trace::Trace;

/// The console of a region. China's regions and GovCloud's have one of their own.
pub fn console(region: &str) -> String {
    let domain = match region {
        china if china.starts_with("cn-") => "console.amazonaws.cn",
        gov if gov.starts_with("us-gov-") => "console.amazonaws-us-gov.com",
        _ => "console.aws.amazon.com",
    };
    format!("https://{region}.{domain}/cloudwatch/home?region={region}")
}

/// The page of a trace. The console writes its id as X-Ray does, whoever began it.
pub fn trace(region: &str, trace: &Trace) -> String {
    let id = trace.id();
    let (time, rest) = id.split_at(8);
    format!("{}#xray:traces/1-{time}-{rest}", console(region))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_has_a_console_of_its_own() {
        let id = Trace::parse("00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01").expect("a trace");
        for (region, host) in [
            ("eu-central-1", "console.aws.amazon.com"),
            ("cn-north-1", "console.amazonaws.cn"),
            ("us-gov-west-1", "console.amazonaws-us-gov.com"),
        ] {
            let expected = format!(
                "https://{region}.{host}/cloudwatch/home?region={region}#xray:traces/1-5759e988-bd862e3fe1be46a994272793"
            );
            assert_eq!(trace(region, &id), expected);
        }
    }
}
