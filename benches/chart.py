#!/usr/bin/env python3
"""Draws a bar chart in SVG from a table of ratios.

    benches/chart.py docs/figures/cpu.tsv > docs/figures/cpu.svg

The table has a title, a note below the chart, and a line for each bar: a name and a ratio, separated by a tab. A line across
all bars marks the ratio 1.
"""

import html
import sys

WIDTH, LEFT, BAR, GAP = 720, 150, 22, 10


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        title, note, *rows = [line.rstrip("\n") for line in file if line.strip()]
    bars = [(name, float(ratio)) for name, ratio in (row.split("\t") for row in rows)]
    most = max(1.0, *(ratio for _, ratio in bars))
    unit = (WIDTH - LEFT - 60) / most
    height = 44 + len(bars) * (BAR + GAP) + 40
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" role="img" '
          f'font-family="sans-serif" font-size="13">')
    print(f'<rect width="100%" height="100%" fill="#ffffff"/>')
    print(f'<text x="12" y="24" font-size="15" font-weight="bold" fill="#1f2328">{html.escape(title)}</text>')
    for n, (name, ratio) in enumerate(bars):
        y = 44 + n * (BAR + GAP)
        print(f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end" fill="#1f2328">{html.escape(name)}</text>')
        print(f'<rect x="{LEFT}" y="{y}" width="{ratio * unit:.0f}" height="{BAR}" fill="#2f6f9f"/>')
        print(f'<text x="{LEFT + ratio * unit + 6:.0f}" y="{y + 16}" fill="#1f2328">{ratio:.2f}</text>')
    one, bottom = LEFT + unit, 44 + len(bars) * (BAR + GAP)
    print(f'<line x1="{one:.0f}" y1="36" x2="{one:.0f}" y2="{bottom}" stroke="#b35900" stroke-dasharray="4 3"/>')
    print(f'<text x="12" y="{bottom + 22}" font-size="12" fill="#57606a">{html.escape(note)}</text>')
    print("</svg>")


if __name__ == "__main__":
    main()
