// Package calllog writes a log line about each call that failed or was slow: its method, code, duration, caller, policy
// and trace. It writes nothing that may be a secret: no key, token, body, header or id of a hold, and no text that
// repeats any of them.
//
// A flood of such calls cannot fill a disk: there are at most 10 lines of one code in 10 s, and then the number of
// dropped ones. A code is one of about twenty, so a client's mistakes do not crowd out failures of the node.
//
// It does not know what a call is about, or why it failed. A nil *Log is off.
package calllog
