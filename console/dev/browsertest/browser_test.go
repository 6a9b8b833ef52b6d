package browsertest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// patience bounds every wait: on a working machine no test passes or fails because of it.
const patience = time.Minute

// chromium is the one browser of all tests.
var chromium struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.stop != nil {
		chromium.stop()
	}
	os.Exit(code)
}

func startChromium() {
	path, found := testserver.Browser()
	if !found {
		chromium.err = fmt.Errorf("no browser was found: run make servers, or set CHROMIUM to the path of one")
		return
	}
	// Without a sandbox, which root cannot have, and root is who CI runs as. The browser sees pages of tests only.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WindowSize(1440, 900), chromedp.Flag("force-color-profile", "srgb"))
	allocator, stopProcess := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stopTab := chromedp.NewContext(allocator)
	chromium.ctx, chromium.stop = ctx, func() { stopTab(); stopProcess() }
	chromium.err = chromedp.Do(ctx)
}

// window is a browser window with its own profile. Errors in the console of its pages fail the test.
type window struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	faults   []string
	requests []string
	// broken lets requests fail, as they do while a server is away.
	broken bool
}

func open(t *testing.T, base string) *window {
	t.Helper()
	chromium.once.Do(startChromium)
	require.NoError(t, chromium.err)
	ctx, stop := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(stop)
	w := &window{t: t, base: base}
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(1440, 900)))
	w.ctx = ctx
	messages := chromedp.Console(w.ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.IsException() || m.Type == "error" || m.Source == "security" {
				w.mu.Lock()
				if !w.broken || m.Source != "network" {
					w.faults = append(w.faults, m.String())
				}
				w.mu.Unlock()
			}
		}
	}()
	require.NoError(t, chromedp.Listen(w.ctx, func(event any) {
		if e, ok := event.(*network.EventRequestWillBeSent); ok {
			w.mu.Lock()
			w.requests = append(w.requests, e.Request.URL)
			w.mu.Unlock()
		}
	}))
	t.Cleanup(w.check)
	return w
}

// check fails if the pages logged errors, or requested anything from another host.
func (w *window) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) > 0 {
		w.t.Errorf("the console of the browser has errors:\n%s", strings.Join(w.faults, "\n"))
	}
	base, err := url.Parse(w.base)
	if err != nil {
		w.t.Error(err)
		return
	}
	for _, address := range w.requests {
		u, err := url.Parse(address)
		if err != nil || (u.Scheme != "blob" && u.Scheme != "data" && (u.Host != base.Host || !strings.HasPrefix(u.Path, base.Path))) {
			w.t.Errorf("a request to %s, outside of %s", address, w.base)
		}
	}
}

// tolerate lets requests fail from now on, as with a server that is away.
func (w *window) tolerate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = true
}

func (w *window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		w.t.Fatalf("%v\nthe page is:\n%s", err, w.text())
	}
}

// text is the visible text of the page, for messages about failures.
func (w *window) text() string {
	text, err := chromedp.Run(context.WithoutCancel(w.ctx), chromedp.Evaluate[string](`document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// goTo opens a page by its address, relative to the console.
func (w *window) goTo(path string) {
	w.t.Helper()
	w.do(chromedp.Navigate(w.base + path))
}

func (w *window) see(selector string) {
	w.t.Helper()
	w.do(chromedp.WaitVisible(chromedp.CSS(selector)))
}

func (w *window) gone(selector string) {
	w.t.Helper()
	w.do(chromedp.WaitNotPresent(chromedp.CSS(selector)))
}

// click clicks with the mouse once the element rests: a page that receives its data moves its elements.
func (w *window) click(selector string) {
	w.t.Helper()
	w.see(selector)
	evaluate[bool](w, fmt.Sprintf(`new Promise((done) => {
		let last = "", frames = 0;
		const next = () => {
			const r = document.querySelector(%q)?.getBoundingClientRect(), at = JSON.stringify(r);
			frames = r && at === last ? frames + 1 : 0;
			last = at;
			frames < 12 ? requestAnimationFrame(next) : done(true);
		};
		next();
	})`, selector))
	w.do(chromedp.Click(chromedp.CSS(selector)))
}

// press clicks the button or link with a text.
func (w *window) press(text string) {
	w.t.Helper()
	w.await(fmt.Sprintf(`(() => {
		const all = [...(document.querySelector("dialog[open]") ?? document).querySelectorAll("button, a, summary, [role=menuitem]")];
		const found = all.find((e) => e.textContent.trim() === %q && !e.disabled);
		found?.click();
		return !!found;
	})()`, text))
}

// fill types into a field by its name.
func (w *window) fill(name, text string) {
	w.t.Helper()
	w.await(fmt.Sprintf(`(() => {
		const field = document.querySelector('[name=%q], [data-field=%q]');
		if (!field) return false;
		const proto = Object.getPrototypeOf(field);
		Object.getOwnPropertyDescriptor(proto, "value").set.call(field, %q);
		field.dispatchEvent(new Event("input", { bubbles: true }));
		field.dispatchEvent(new Event("change", { bubbles: true }));
		return true;
	})()`, name, name, text))
}

// key presses a key while no field has the focus.
func (w *window) key(keys string) {
	w.t.Helper()
	w.do(chromedp.KeyEvent(keys))
}

// await waits until an expression is true.
func (w *window) await(expression string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Poll[any](expression, chromedp.WithPollingTimeout(0)))
	if err != nil {
		w.t.Fatalf("%v\nwaited for %s\nthe page is:\n%s", err, expression, w.text())
	}
}

// shows waits until the page shows a text.
func (w *window) shows(text string) {
	w.t.Helper()
	w.await(fmt.Sprintf(`document.body.innerText.replace(/\s+/g, " ").includes(%q)`, text))
}

func evaluate[T any](w *window, expression string) T {
	w.t.Helper()
	value, err := chromedp.Run(w.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(w.t, err, expression)
	return value
}
