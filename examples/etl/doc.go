// Command etl loads measurements out of a folder of files into a warehouse: it extracts, validates, transforms and
// loads each file in a separate run of a flow, some files at a time, and reports the loaded and the refused rows and
// the failed files.
//
// flow.go declares the work as two flows; the other files hold the ordinary functions that their nodes run. The step
// that loads is a batch activity under a limit: one call loads several files in one transaction of the warehouse. Its
// idempotency keys make repetitions harmless, so each row is loaded once, whatever is lost in between.
package main
