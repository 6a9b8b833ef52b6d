package layout

// line is the style of the outlines of icons.
const line = `fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"`

// kindIcons are the icons of kinds of nodes, 16 by 16 pixels.
var kindIcons = map[Kind]string{
	Activity: `<rect x="2" y="2" width="12" height="12" rx="3" ` + line + `/>` +
		`<path d="M6.5 5.3v5.4L10.8 8z" fill="currentColor"/>`,
	Waitpoint: `<circle cx="8" cy="5" r="3" fill="currentColor"/>` +
		`<path d="M2.5 14c0-3 2.4-4.7 5.5-4.7s5.5 1.7 5.5 4.7z" fill="currentColor"/>`,
	Timer:     `<circle cx="8" cy="8" r="6" ` + line + `/><path d="M8 4.6V8l2.4 1.6" ` + line + `/>`,
	Condition: `<path d="M8 1.8L14.2 8 8 14.2 1.8 8z" ` + line + `/>`,
	Map:       `<path d="M2.5 3.5h11M2.5 8h11M2.5 12.5h11" ` + line + `/>`,
	SubFlow:   `<path d="M2 5h3v3H2zM11 2.5h3v3h-3zM11 10.5h3v3h-3zM5 6.5h3V4h3M8 6.5V12h3" ` + line + `/>`,
	Loop:      `<path d="M13.3 6.2A5.7 5.7 0 1 0 13.7 9M13.6 2.8v3.5h-3.5" ` + line + `/>`,
	Expansion: `<circle cx="4" cy="8" r="2" ` + line + `/><path d="M6 8h2.5M11 5.5v5M8.5 8h5" ` + line + `/>`,
	Fold:      `<path d="M2.5 6.5h11v7h-11zM4.5 4h7M6.5 1.5h3" ` + line + `/>`,
}

// stateLook is how a state is drawn: a word and an icon, whose shape says it without the colour.
type stateLook struct {
	word string
	// hue is the class of the colour. It says who has to move.
	hue string
	// open states colour the border.
	open bool
	icon string
}

var stateLooks = map[State]stateLook{
	NotStarted: {"not started", "idle", false, `<circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor"/>`},
	Queued: {"queued", "idle", false, `<circle cx="8" cy="8" r="6" ` + line +
		`/><path d="M5.2 8h.01M8 8h.01M10.8 8h.01" ` + line + `/>`},
	Running: {"running", "run", true, `<circle cx="8" cy="8" r="6" ` + line +
		`/><path d="M8 3.8a4.2 4.2 0 0 1 0 8.4z" fill="currentColor"/>`},
	WaitingForPerson: {"waiting for an answer", "person", true, kindIcons[Waitpoint]},
	Delayed:          {"delayed", "held", true, kindIcons[Timer]},
	Retrying:         {"retrying", "held", true, kindIcons[Loop]},
	Blocked: {"blocked", "held", true, `<rect x="2" y="2" width="12" height="12" rx="2.5" ` + line +
		`/><path d="M4.8 8h6.4" ` + line + `/>`},
	Paused: {"paused", "held", true, `<circle cx="8" cy="8" r="6" ` + line +
		`/><path d="M6.3 5.8v4.4M9.7 5.8v4.4" ` + line + `/>`},
	NoWorker: {"no worker", "lost", true, `<path d="M8 2L14.5 13.5h-13zM8 6.6v3M8 11.5h.01" ` + line + `/>`},
	Succeeded: {"succeeded", "ok", false, `<circle cx="8" cy="8" r="6.75" fill="currentColor"/>` +
		`<path class="sign" d="M5.2 8.2l2 2 3.7-4.1"/>`},
	Failed: {"failed", "bad", false, `<path d="M5.3 1.2h5.4l4.1 4.1v5.4l-4.1 4.1H5.3L1.2 10.7V5.3z" ` +
		`fill="currentColor"/><path class="sign" d="M5.7 5.7l4.6 4.6M10.3 5.7l-4.6 4.6"/>`},
	Cancelled: {"cancelled", "idle", false, `<circle cx="8" cy="8" r="6" ` + line + `/><path d="M3.9 12.1l8.2-8.2" ` +
		line + `/>`},
	Skipped: {"skipped", "idle", false, `<circle cx="8" cy="8" r="6" ` + line + ` stroke-dasharray="2.2 2.5"/>` +
		`<path d="M6.5 5.7L8.9 8l-2.4 2.3" ` + line + `/>`},
	Expired: {"expired", "lost", false,
		`<path d="M4 1.8h8M4 14.2h8M4.8 1.8v2.4L8 8l3.2-3.8V1.8M4.8 14.2v-2.4L8 8l3.2 3.8v2.4" ` + line + `/>`},
}

// attention are the states, those first that need it most: a fold has the first one that a member has.
var attention = []State{
	WaitingForPerson, NoWorker, Blocked, Paused, Retrying, Delayed, Running, Queued, NotStarted,
	Failed, Expired, Cancelled, Succeeded, Skipped,
}
