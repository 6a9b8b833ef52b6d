// Package approvals is an http.Handler behind the links by which people answer a waitpoint: approve, reject, or other
// choices. A link is the handler's address with a waitpoint's token behind it; Path makes it.
//
//	links, err := approvals.New(client, approvals.Title("Deployments"))
//	http.Handle("/approvals/", http.StripPrefix("/approvals", links))
//
//	waitpoints, err := client.Waitpoints(ctx, "deploy", "v2")
//	mail("https://ops.example.com/approvals" + approvals.Path(waitpoints[0].Token, ""))
//
// Looking at a link changes nothing, so programs that fetch links ahead are harmless. The page has a form, which works without
// JavaScript, and only the sent form signals the waitpoint, with a Decision as payload. Sending it twice is harmless: the
// second answer is that of the first.
//
// A token is a secret: whoever has the link can answer. The handler keeps it out of logs, caches and referrers, but the
// server's own access log may contain paths.
package approvals
