// Icons of states and of things. All take the colour of the text around them and mean nothing without it.

type Shape = string; // inner SVG of a box of 16 by 16

const line = 'fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"';
const cut = 'fill="none" stroke="var(--surface)" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round"';
const path = (d: string, how = line) => `<path d="${d}" ${how}/>`;
const ring = `<circle cx="8" cy="8" r="6" ${line}/>`;
const dot = (x: number, y: number) => `<circle cx="${x}" cy="${y}" r=".9" fill="currentColor"/>`;

export const shapes = {
  none: '<circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor"/>',
  queued: ring + dot(5.2, 8) + dot(8, 8) + dot(10.8, 8),
  running: ring + path("M8 3.8a4.2 4.2 0 0 1 0 8.4z", 'fill="currentColor"'),
  person: '<circle cx="8" cy="5" r="3" fill="currentColor"/>' +
    path("M2.5 14c0-3 2.4-4.700 5.500-4.700s5.500 1.700 5.500 4.700z", 'fill="currentColor"'),
  delayed: ring + path("M8 4.600V8l2.400 1.600"),
  retry: path("M13.300 6.200A5.700 5.700 0 1 0 13.700 9M13.600 2.800v3.500h-3.500"),
  blocked: `<rect x="2" y="2" width="12" height="12" rx="2.500" ${line}/>` + path("M4.800 8h6.400"),
  paused: ring + path("M6.300 5.800v4.400M9.700 5.800v4.400"),
  unserved: path("M8 2L14.500 13.500h-13zM8 6.600v3") + dot(8, 11.5),
  ok: '<circle cx="8" cy="8" r="6.75" fill="currentColor"/>' + path("M5.200 8.200l2 2 3.700-4.100", cut),
  failed: path("M5.300 1.200h5.400l4.100 4.100v5.400l-4.100 4.100H5.300L1.200 10.700V5.300z", 'fill="currentColor"') +
    path("M5.700 5.700l4.600 4.600M10.300 5.700l-4.600 4.600", cut),
  cancelled: ring + path("M3.900 12.100l8.200-8.200"),
  skipped: ring.replace("/>", ' stroke-dasharray="2.2 2.5"/>') + path("M6.500 5.700L8.900 8l-2.400 2.300"),
  expired: path("M4 1.800h8M4 14.200h8M4.800 1.800v2.400L8 8l3.200-3.800V1.800M4.800 14.200v-2.400L8 8l3.200 3.800v2.400"),
  late: path("M8 2a4 4 0 0 0-4 4c0 3.500-1.500 4.500-1.500 5.500h11C13.500 10.500 12 9.500 12 6a4 4 0 0 0-4-4zM6.500 13.800h3"),
  health: path("M1.500 8.500H4.500L6.500 3.500l3 9 2-4h3"),
  runs: path("M2 4h8M2 8h12M2 12h6M13 3v2M11 11v2"),
  inbox: path("M2 9l2-6h8l2 6v4H2zM2 9h3.500l1 2h3l1-2H14"),
  flows: path("M2 5h3v3H2zM11 2.500h3v3h-3zM11 10.500h3v3h-3zM5 6.500h3V4h3M8 6.500V12h3"),
  schedules: path("M2.500 4h11v10h-11zM2.500 7h11M5.500 2v3M10.500 2v3"),
  lanes: path("M2 4h9M2 8h12M2 12h6M13 3l1.500 1L13 5"),
  limits: path("M2.500 12a6 6 0 1 1 11 0M8 10l2.500-3.500"),
  budgets: path("M2 3v11h12M4.500 5l3 3 2-1.500 4 4.500"),
  workers: path("M2.500 3h11v4h-11zM2.500 9h11v4h-11zM5 5h.01M5 11h.01"),
  keepers: path("M8 2l5 2v4c0 3-2 5-5 6-3-1-5-3-5-6V4zM6 8l1.500 1.500L10.500 6"),
  bulk: path("M5 2h9v9M2 5h9v9H2zM4.500 9.500l1.500 1.500 2.500-3"),
  audit: path("M3 2h7l3 3v9H3zM5.500 7h5M5.500 10h5"),
  settings: path("M2 5h6M11.500 5H14M2 11h2.500M8 11h6M8 3.500v3M4.500 9.500v3"),
  search: path("M7 2.500a4.500 4.500 0 1 0 0 9 4.500 4.500 0 0 0 0-9zM10.500 10.500L14 14"),
  turn: path("M3 5.500h9.500M9.800 2.800l2.700 2.700M13 10.500H3.500M6.200 13.200l-2.700-2.700"),
  plus: path("M8 3v10M3 8h10"),
  check: path("M3.500 8.500l3 3 6-7"),
  down: path("M4.500 6.500L8 10l3.500-3.500"),
  up: path("M4.500 9.500L8 6l3.500 3.500"),
  x: path("M4 4l8 8M12 4l-8 8"),
  link: path("M6.500 9.500l3-3M7 4.500l1-1a3 3 0 0 1 4.500 4.500l-1 1M9 11.500l-1 1A3 3 0 0 1 3.500 8l1-1"),
  fit: path("M2.500 6V2.500H6M10 2.500h3.500V6M13.500 10v3.500H10M6 13.500H2.500V10"),
  more: path("M3.500 8h.01M8 8h.01M12.500 8h.01"),
} satisfies Record<string, Shape>;

export type IconName = keyof typeof shapes;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="ic" viewBox="0 0 16 16" width={size} height={size} aria-hidden="true"
      dangerouslySetInnerHTML={{ __html: shapes[name] }} />
  );
}

export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 22 22" width="22" height="22" aria-hidden="true">
      <rect width="22" height="22" rx="6" fill="var(--accent)" />
      <path d="M5 7.500h12M8.500 7.500V12a3 3 0 0 1-3 3M13.500 7.500V13a2 2 0 0 0 2 2" fill="none"
        stroke="var(--on-accent)" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}
