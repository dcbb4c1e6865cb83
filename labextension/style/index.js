import './base.css';
import './command.css';
