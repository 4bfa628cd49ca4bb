//! A partner of the catalogue in memory, for tests over models: the stub's forms without a server and without its clock.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use shared::base::time::Timestamp;
use shared::effects::request::PartnerRequest;
use shared::flows::PartnerAnswer;

use super::call::{IncomingCall, PartnerCall};
use super::control::{Behaviour, Mode};
use super::form::PartnerForm;
use super::integration::StubIntegration;
use super::stub::PartnerStub;

/// A partner of the catalogue, which does what it is asked for and answers as its documentation shows it. It asks for no
/// credentials.
pub struct PartnerModel {
    name: String,
    stub: Mutex<PartnerStub>,
    told: Mutex<Option<Behaviour>>,
}

impl PartnerModel {
    /// The partner of this name in the catalogue, which the integration has, too.
    pub fn new(name: &str) -> Self {
        let known = [(name.to_owned(), StubIntegration::of_form(PartnerForm::of(Some(name))))];
        Self { name: name.to_owned(), stub: Mutex::new(PartnerStub::new(known.into())), told: Mutex::default() }
    }

    fn stub(&self) -> MutexGuard<'_, PartnerStub> {
        self.stub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the answer to the next call be lost, and says whether the call is done.
    pub fn lose_next_answer(&self, is_done: bool) {
        self.tell_next(Mode::Reset { apply: is_done });
    }

    /// Tells the partner what to do with the next call.
    pub fn tell_next(&self, mode: Mode) {
        let told = Behaviour { mode, times: Some(1), ..Behaviour::default() };
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }

    /// Answers a call that came at this moment; or nothing, where the answer is lost. What is changed was made before.
    pub fn call(&self, request: &PartnerRequest, at: Timestamp) -> Option<PartnerAnswer> {
        let mut headers: BTreeMap<String, String> =
            request.headers.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
        let body = request.body.as_ref();
        headers.extend(body.map(|body| ("content-type".to_owned(), body.content_type.to_string())));
        let call = IncomingCall {
            at: jiff::Timestamp::from_millisecond(at.millis()).unwrap_or_default(),
            integration: request.integration.clone(),
            method: request.method.to_owned(),
            path: format!("/{}{}", request.integration, request.path),
            ..IncomingCall::default()
        };
        let call = call.with(headers, body.map_or(&[], |body| &body.bytes));
        let mut stub = self.stub();
        if call.method == "PATCH" && stub.log().is_empty() {
            stub.handle_call(IncomingCall { method: "POST".into(), ..call.clone() });
        }
        if let Some(told) = self.told.lock().unwrap_or_else(PoisonError::into_inner).take() {
            stub.set(self.name.clone(), told);
        }
        let answer = stub.handle_call(call).1;
        let headers = answer.headers.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
        let body = Some(answer.body).filter(|body| !body.is_null());
        Some(PartnerAnswer { status: answer.status?.as_u16(), headers, body })
    }

    /// Every call, in order.
    pub fn calls(&self) -> Vec<PartnerCall> {
        self.stub().log().to_vec()
    }
}
