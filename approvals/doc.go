// Package approvals provides an http.Handler for links by which people answer a waitpoint: approve, reject, or other
// choices. A link is the handler's address followed by a waitpoint's token; Path makes it.
//
//	links, err := approvals.New(client, approvals.Config{Title: "Deployments"})
//	http.Handle("/approvals/", http.StripPrefix("/approvals", links))
//
//	waitpoints, err := client.Run("deploy", "v2").Waitpoints(ctx)
//	mail("https://ops.example.com/approvals" + approvals.Path(waitpoints[0].Token))
//
// Opening a link changes nothing, so programs that prefetch links are harmless. The page has a button for each
// choice, which works without JavaScript, and only a button signals the waitpoint, with a Decision as payload. Pressing
// it twice is harmless: both get the same reply.
//
// A token is a secret: anyone with the link can answer. The handler keeps it out of logs, caches and referrers, but the
// server's own access log may contain paths.
//
// Import it to let people without an account answer a waitpoint.
package approvals
