package e2e

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience bounds every wait.
const patience = 2 * time.Minute

// browser is a headless Chromium with a profile of its own, as of one person.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// openBrowser starts a browser that ends with the test.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	program := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	require.NotEmpty(t, program, "no browser was found: apt-get install chromium, or set CHROMIUM to its path")
	// Without a sandbox, which root cannot have, and root is who CI runs as. The browser sees pages of these tests
	// only.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, stopTab := chromedp.NewContext(allocator)
	t.Cleanup(stopTab)
	require.NoError(t, chromedp.Do(ctx), "the browser does not start")
	ctx, stopClock := context.WithTimeout(ctx, patience)
	t.Cleanup(stopClock)
	return &browser{t: t, ctx: ctx}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

// open goes to a page.
func (b *browser) open(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address))
}

// back goes to the page before, which has a form.
func (b *browser) back() {
	b.t.Helper()
	b.do(chromedp.NavigateBack())
	b.see("form")
}

func (b *browser) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

func (b *browser) fill(selector, text string) {
	b.t.Helper()
	b.do(chromedp.SetValue(chromedp.CSS(selector), text))
}

// see waits until a part of the page is there.
func (b *browser) see(selector string) {
	b.t.Helper()
	b.do(chromedp.WaitVisible(chromedp.CSS(selector)))
}

// answer fills the form in, sends it and waits for the next page.
func (b *browser) answer(choice, who, comment string) {
	b.t.Helper()
	b.click(`input[value="` + choice + `"]`)
	b.fill("#who", who)
	if comment != "" {
		b.fill("#comment", comment)
	}
	b.click("button")
	b.do(chromedp.WaitNotPresent(chromedp.CSS("form")))
}

// text is the visible text of a part of the page.
func (b *browser) text(selector string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS(selector)))
	require.NoError(b.t, err)
	return text
}

// script is the value of an expression in the page.
func (b *browser) script(expression string) string {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](expression))
	require.NoError(b.t, err)
	return value
}
