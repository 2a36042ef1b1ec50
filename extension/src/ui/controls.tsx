/** Buttons, icons and rows of choices, as React draws them. */

import type { ButtonHTMLAttributes, JSX, KeyboardEvent } from 'react';

/** The classes of an element; those that do not hold are left out. */
export function classes(...names: (string | false)[]): string {
  return names.filter(Boolean).join(' ');
}

/** Outlines on a grid of 16 by 16, drawn with the colour of the text. */
const ICONS = {
  undo: 'M6 3 2.5 6.5 6 10M3 6.5h6.5a3.5 3.5 0 0 1 0 7H7',
  redo: 'M10 3l3.5 3.5L10 10M13 6.5H6.5a3.5 3.5 0 0 0 0 7H9',
  fit: 'M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10',
  play: 'M5 3v10l8-5z',
  pause: 'M5.5 3v10M10.5 3v10',
  back: 'M11 3 6 8l5 5M4.5 3v10',
  forward: 'M5 3l5 5-5 5M11.5 3v10',
  close: 'M4 4l8 8M12 4l-8 8',
  steps: 'M2 13h4V9h4V5h4',
  plot: 'M2.5 2.5v11h11M5 10.5l2.5-3 2 2 4-5',
  beside: 'M2 3.5h5.2v9H2zM9.8 3.5H14v9H9.8z',
  panel: 'M2.5 3h11v10h-11zM10 3v10',
  save: 'M8 2.5v7M5 7l3 3 3-3M2.5 10.5v3h11v-3',
  error: 'M5.5 2h5L14 5.5v5L10.5 14h-5L2 10.5v-5zM8 4.7v4M8 11v.3',
  warning: 'M8 2.3 14.3 13H1.7zM8 6.3v3.2M8 11.2v.3',
  note: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M8 7.3v3.7M8 4.8v.3',
  right: 'M2.5 8.5 6.3 12 13.5 4.5',
  changed: 'M3 6h10M3 10h10M10.5 3l-5 10',
  move: 'M6 3.5v.1M10 3.5v.1M6 8v.1M10 8v.1M6 12.5v.1M10 12.5v.1'
} as const;

export type IconName = keyof typeof ICONS;

/** An icon that screen readers skip. */
export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg viewBox="0 0 16 16" className="workbench-Icon" aria-hidden="true">
      <path d={ICONS[name]} />
    </svg>
  );
}

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement>;

/** A button that looks like one, or like a link. */
export function Button({
  look,
  className = '',
  ...rest
}: ButtonProps & { look: 'plain' | 'link' | 'primary' | 'outlined' }): JSX.Element {
  const names = classes('workbench-Button', `workbench-mod-${look}`, className);
  return <button type="button" {...rest} className={names} />;
}

/** A button with an icon; its label is read out, and shown as its title. */
export function IconButton({
  icon,
  label,
  className = '',
  ...rest
}: ButtonProps & { icon: IconName; label: string }): JSX.Element {
  const names = classes('workbench-Button workbench-mod-icon', className);
  return (
    <button type="button" title={label} aria-label={label} {...rest} className={names}>
      <Icon name={icon} />
    </button>
  );
}

/** One choice of a row. */
export interface IChoice<T extends string> {
  value: T;
  label: string;
  title?: string;
  /** Why it cannot be chosen now; who tries is to be told. */
  unavailable?: string | null;
}

interface ISegmentsProps<T extends string> {
  label: string;
  look: 'segments' | 'chips' | 'tabs';
  choices: readonly IChoice<T>[];
  chosen: T | null;
  onChoose: (value: T) => void;
  hidden?: boolean;
}

/** The steps of arrow keys in a row. */
const STEPS: Readonly<Partial<Record<string, number>>> = {
  ArrowRight: 1,
  ArrowDown: 1,
  ArrowLeft: -1,
  ArrowUp: -1
};

/**
 * A row of buttons of which one is pressed. Arrow keys move between them, as
 * in every radio group.
 */
export function Segments<T extends string>(props: ISegmentsProps<T>): JSX.Element {
  const { label, look, choices, chosen, onChoose, hidden } = props;
  const tabs = look === 'tabs';
  const known = choices.some(({ value }) => value === chosen);
  const onKeyDown = (event: KeyboardEvent<HTMLElement>): void => {
    const step = STEPS[event.key];
    const buttons = [...event.currentTarget.children] as HTMLElement[];
    const at = buttons.indexOf(event.target as HTMLElement);
    if (step !== undefined && at >= 0) {
      event.preventDefault();
      event.stopPropagation();
      const next = (at + step + choices.length) % choices.length;
      buttons[next].focus();
      onChoose(choices[next].value);
    }
  };
  return (
    <div
      className={`workbench-Segments workbench-mod-${look}`}
      role={tabs ? 'tablist' : 'radiogroup'}
      aria-label={label}
      hidden={hidden}
      onKeyDown={onKeyDown}
    >
      {choices.map(({ value, label: text, title, unavailable }, i) => (
        <button
          key={value}
          type="button"
          className={classes(
            'workbench-Segment',
            value === chosen && 'workbench-mod-chosen'
          )}
          title={unavailable ?? title}
          aria-disabled={unavailable ? true : undefined}
          role={tabs ? 'tab' : 'radio'}
          data-value={value}
          {...{ [tabs ? 'aria-selected' : 'aria-checked']: value === chosen }}
          tabIndex={value === chosen || (!known && i === 0) ? 0 : -1}
          onClick={() => onChoose(value)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}
